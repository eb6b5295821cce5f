//! What a rotation would do, as text. Pure.

use super::{
    credentials::Account,
    decision::{Decision, Old},
    gather::DESTINATION,
};

/// What decides on the steps of a rotation.
pub(super) struct Steps<'a> {
    pub(super) account: &'a Account,
    /// Number of Secrets with credentials of the link.
    pub(super) secrets: usize,
    /// Whether Linkerd has to be restarted.
    pub(super) restarts: bool,
    /// Whether it may be.
    pub(super) may_restart: bool,
}

impl Steps<'_> {
    /// The steps, for `--dry-run`.
    pub(super) fn text(&self, decision: &Decision<'_>, old: &Old) -> String {
        let mut steps = Vec::new();
        match decision {
            Decision::Finish(_) | Decision::Skip(_) => {}
            Decision::Continue(token) => {
                steps.push(format!("continue with the token Secret {}", token.name));
            }
            Decision::Create => steps.push(format!(
                "create a token Secret for {}/{}",
                self.account.namespace, self.account.name
            )),
        }
        if !steps.is_empty() {
            steps.push(format!("write {} Secrets", self.secrets));
        }
        if self.restarts && self.may_restart {
            steps.push(format!("restart {DESTINATION}"));
        }
        if !(old.revoked.is_empty() || self.restarts && !self.may_restart) {
            let names = old.revoked.join(", ");
            steps.push(format!("delete the token Secret {names}"));
        }
        let kept = if old.kept.is_empty() {
            String::new()
        } else {
            let names = old.kept.join(", ");
            format!("; would keep {names}, which other links may use")
        };
        format!("would {}{kept}", steps.join(", "))
    }
}
