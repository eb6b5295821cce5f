//! What is left for others after a rotation, as commands. Pure.

use hints::suggest::ClusterFlags;

use links::{
    fleet::{loaded::LoadedFleet, remaining::RemainingStep},
    rotate::outcome::{Ending, RotationOutcome},
};

/// The steps of target clusters whose new tokens are in use now.
pub fn remaining(loaded: &LoadedFleet, done: &[RotationOutcome]) -> Vec<RemainingStep> {
    let in_use = done.iter().filter(|link| link.result == Ending::InUse);
    let steps = in_use.filter_map(|link| {
        // A token that was requested has no Secret.
        let token = link.done.token_secret.as_deref()?.rsplit('/').next()?;
        let (file, source, target) = (&loaded.name, link.source.as_deref()?, &link.cluster);
        let command = ClusterFlags::default().mc(
            "rotate --file {} --only {} --in-use {}={}",
            &[file, target, source, token],
        );
        Some(RemainingStep::of(target, &command))
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use links::fleet::{loaded::parse, remaining::text as remaining_text};

    use super::*;

    #[test]
    fn each_target_cluster_gets_the_command_for_its_step() {
        let of = |source: &str, target: &str, result, token: Option<&str>| {
            let ends = links::fleet_file::LinkEnds {
                source: source.parse().unwrap(),
                target: target.parse().unwrap(),
            };
            let mut outcome = RotationOutcome::of(&ends, result, None);
            outcome.done.token_secret = token.map(|token| format!("mc/{token}"));
            outcome
        };
        let done = [
            of("east", "west", Ending::InUse, Some("east-token-x")),
            of("east", "north", Ending::Failed, Some("east-token-y")),
            of("north", "west", Ending::Rotated, Some("north-token-x")),
            of("south", "west", Ending::Revoked, None),
            of("south", "north", Ending::InUse, None),
        ];
        let text = "name: f\nclusters: [{name: west}]\nlinks: []\n";
        let loaded = parse("a b.yaml", text, Path::new(""), "linkerd").unwrap();
        assert_eq!(
            remaining_text(&remaining(&loaded, &done)),
            "# What remains, for west\nlinkerd-mc rotate --file 'a b.yaml' --only west --in-use east=east-token-x\n"
        );
    }
}
