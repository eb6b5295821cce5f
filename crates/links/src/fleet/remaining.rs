//! Steps that others have to take, as commands. Pure.

use std::fmt::Display;

use serde::Serialize;

use hints::suggest::Suggested;

/// A step that somebody with access to another cluster has to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemainingStep {
    /// Whose step it is.
    pub cluster: String,
    pub command: String,
}

impl RemainingStep {
    /// The command for the owner of a cluster.
    pub fn of(cluster: &impl Display, command: &Suggested) -> Self {
        Self {
            cluster: cluster.to_string(),
            command: command.line().to_owned(),
        }
    }
}

/// The steps as text, for a shell.
pub fn text(steps: &[RemainingStep]) -> String {
    let of_one = steps.chunk_by(|step, next| step.cluster == next.cluster);
    let texts = of_one.map(|steps| {
        let commands = steps.iter().map(|step| format!("{}\n", step.command));
        let commands: String = commands.collect();
        format!("# What remains, for {}\n{commands}", steps[0].cluster)
    });
    texts.collect()
}
