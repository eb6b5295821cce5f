//! Which flags are on the command line. A flag that is not there does not change what is set.

use std::collections::BTreeSet;

use clap::{ArgMatches, parser::ValueSource};

/// The flags on the command line, by the names of their fields.
#[derive(Clone, Debug, Default)]
pub struct Given(BTreeSet<String>);

impl Given {
    /// Those of a subcommand.
    pub fn of(matches: &ArgMatches) -> Self {
        let named = matches.ids().map(clap::Id::as_str);
        let named = named.filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine));
        Self(named.map(str::to_owned).collect())
    }

    /// Flags that something else than a command line gives, such as a file.
    pub fn of_names(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    /// The same flags, except that `from` stands for `to`.
    pub fn renamed(&self, from: &str, to: &str) -> Self {
        let mut renamed = self.clone();
        renamed.0.remove(to);
        if renamed.0.remove(from) {
            renamed.0.insert(to.to_owned());
        }
        renamed
    }

    /// These flags too.
    pub fn with(&self, flags: &[&str]) -> Self {
        let more = flags.iter().map(|&flag| flag.to_owned());
        Self(self.0.iter().cloned().chain(more).collect())
    }

    /// All of them.
    pub fn flags(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether one of these is there.
    pub fn has(&self, flags: &[&str]) -> bool {
        flags.iter().any(|flag| self.0.contains(*flag))
    }

    /// Flags as a test gives them.
    #[cfg(test)]
    pub fn of_test(flags: &[&str]) -> Self {
        Self(flags.iter().map(|&flag| flag.to_owned()).collect())
    }
}
