//! The formats in which commands print what they have found.

use clap::ValueEnum;
use serde::Serialize;

use super::output;

/// The formats of most commands. Others have more, and the same names for these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Text for people
    Text,
    /// A JSON document
    Json,
    /// The same as YAML
    Yaml,
}

impl OutputFormat {
    /// A value in this format.
    pub fn of(
        self,
        document: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<String> {
        match self {
            Self::Text => Ok(text()),
            Self::Json => output::json(document),
            Self::Yaml => output::yaml(document),
        }
    }

    /// One of several values that follow each other: a line of JSON, or a YAML document.
    pub fn one_of_many(
        self,
        document: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<String> {
        match self {
            Self::Text => Ok(text()),
            Self::Json => Ok(serde_json::to_string(document)? + "\n"),
            Self::Yaml => Ok(format!("---\n{}", output::yaml(document)?)),
        }
    }
}
