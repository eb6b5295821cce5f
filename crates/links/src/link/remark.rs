//! What the user has to know about a link that was generated. The console says it.

use hints::console::Console;

/// What the user has to know about a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remark {
    Warning(String),
    Note(String),
    /// The address of the target's API server that only this machine can reach.
    LocalAddress(String),
}

impl Remark {
    /// Says it.
    pub fn say(&self, console: &dyn Console) {
        self.print(
            console,
            "",
            "pass an address that they can reach with --api-server-address",
        );
    }

    /// Says it, for one of the clusters of a file.
    pub fn say_of(&self, console: &dyn Console, cluster: &str) {
        let fix = format!("set apiServerAddress of {cluster} in the file");
        self.print(console, &format!("{cluster}: "), &fix);
    }

    fn print(&self, console: &dyn Console, of: &str, fix: &str) {
        let text = self.text(fix);
        match self {
            Self::Note(_) => console.note(&format!("{of}{text}")),
            Self::Warning(_) | Self::LocalAddress(_) => console.warning(&format!("{of}{text}")),
        }
    }

    /// `fix` says how another address is set.
    fn text(&self, fix: &str) -> String {
        match self {
            Self::Warning(text) | Self::Note(text) => text.clone(),
            Self::LocalAddress(server) => format!(
                "the link uses the API server address {server}, which other clusters cannot reach; {fix}"
            ),
        }
    }

    /// Says that a setting stays, although the target cluster has another value now.
    pub fn kept(what: &str, kept: &str, now: &str, flag: &str) -> Self {
        Self::Note(format!(
            "the link keeps the {what} {kept}; pass {flag} {now} to use the current one"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_address_is_mended_as_the_command_can() {
        let remark = Remark::LocalAddress("https://127.0.0.1:40123".to_owned());
        for fix in ["pass --api-server-address", "set apiServerAddress"] {
            let text = remark.text(fix);
            assert!(text.contains("https://127.0.0.1:40123"), "{text}");
            assert!(text.ends_with(fix), "{text}");
        }
    }
}
