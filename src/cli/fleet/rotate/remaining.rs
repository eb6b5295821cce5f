//! What is left for others, as commands. Pure.

use std::path::Path;

use super::outcome::LinkRotation;
use crate::{
    cli::{fleet::remaining::RemainingStep, rotate::Ending},
    suggest::ClusterFlags,
};

/// The steps after these, each once.
pub(super) fn remaining(
    file: &Path,
    hand_over: Option<&Path>,
    done: &[LinkRotation],
) -> Vec<RemainingStep> {
    let (file, folder) = (file.to_string_lossy(), hand_over.map(Path::to_string_lossy));
    let flags = ClusterFlags::default();
    let mut steps = Vec::new();
    for LinkRotation { source, outcome } in done {
        let token = outcome.done.token_secret.as_deref();
        let token = token.and_then(|token| token.rsplit('/').next());
        let (cluster, command) = match (outcome.result, &folder, token) {
            (Ending::HandedOver, Some(folder), _) => (
                source,
                flags.mc(
                    "fleet rotate --file {} --only {} --take-over {}",
                    &[&file, source, folder],
                ),
            ),
            // A token that was requested has no Secret.
            (Ending::InUse, _, Some(token)) => (
                &outcome.cluster,
                flags.mc(
                    "fleet rotate --file {} --only {} --in-use {}={}",
                    &[&file, &outcome.cluster, source, token],
                ),
            ),
            _ => continue,
        };
        let step = RemainingStep::of(cluster, &command);
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{
        fleet::remaining::text,
        rotate::{RotationDetails, RotationOutcome},
    };

    #[test]
    fn each_cluster_gets_the_command_for_its_step() {
        let with = |source: &str, target: &str, result, token_secret| LinkRotation {
            source: source.to_owned(),
            outcome: RotationOutcome {
                cluster: target.to_owned(),
                result,
                reason: None,
                done: RotationDetails {
                    token_secret,
                    ..RotationDetails::default()
                },
            },
        };
        let of = |source: &str, target: &str, result| {
            with(source, target, result, Some(format!("mc/{source}-token-x")))
        };
        let done = [
            of("west", "east", Ending::HandedOver),
            of("west", "north", Ending::HandedOver),
            of("north", "east", Ending::HandedOver),
            of("east", "west", Ending::InUse),
            of("east", "north", Ending::Failed),
            of("north", "west", Ending::Rotated),
            of("south", "west", Ending::Revoked),
            with("south", "north", Ending::InUse, None),
        ];
        let steps = remaining(Path::new("a b.yaml"), Some(Path::new("handed")), &done);
        assert_eq!(
            text(&steps),
            "# What remains, for west\nlinkerd-mc fleet rotate --file 'a b.yaml' --only west --take-over handed\n\
             # What remains, for north\nlinkerd-mc fleet rotate --file 'a b.yaml' --only north --take-over handed\n\
             # What remains, for west\nlinkerd-mc fleet rotate --file 'a b.yaml' --only west --in-use east=east-token-x\n"
        );
    }
}
