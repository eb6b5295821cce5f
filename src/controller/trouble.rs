//! Warnings of something that is tried again and again: one line a change, not one a try.

/// What is wrong at the moment, if anything.
#[derive(Debug)]
pub(super) struct Trouble {
    what: String,
    now: Option<String>,
}

impl Trouble {
    /// `what` ends the sentence "failed to …".
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            now: None,
        }
    }

    /// Warns, if the reason is another one than at the last call. Returns whether it was.
    pub(super) fn set(&mut self, reason: &str) -> bool {
        if self.now.as_deref() == Some(reason) {
            return false;
        }
        tracing::warn!("failed to {}, will try again: {reason}", self.what);
        self.now = Some(reason.to_owned());
        true
    }

    /// Says that it works again, if it did not. Returns whether that was so.
    pub(super) fn clear(&mut self) -> bool {
        let was = self.now.take().is_some();
        if was {
            tracing::info!("no longer fails: {}", self.what);
        }
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_told() {
        let mut trouble = Trouble::new("test");
        assert!(!trouble.clear());
        assert!(trouble.set("refused"));
        assert!(!trouble.set("refused"));
        assert!(trouble.set("timed out"));
        assert!(trouble.clear());
        assert!(!trouble.clear());
        assert!(trouble.set("timed out"));
    }
}
