//! What is wrong, as all commands that observe say it: about what, how bad, why, what shows it, and what to do.

pub mod causes;

use hints::suggest::Suggested;
use jiff::Timestamp;
use mirror_core::api::text::one_line;
use serde::{Serialize, Serializer};

use self::causes::Cause;

/// What is wrong with one thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The cluster that it is about, if the finding is one of several clusters.
    pub about: Option<String>,
    /// How bad it is.
    pub level: Level,
    /// Why, if the table of causes has it.
    pub cause: Option<Cause>,
    /// What shows it. It may quote clusters, and what it quotes may look like a command: commands are those of `actions`.
    pub evidence: String,
    /// Since when it is so, if something tells it.
    pub since: Option<Timestamp>,
    /// What to do about it, in order.
    pub actions: Vec<Remedy>,
    /// Whether another finding is its reason. Then it has no remedy of its own.
    pub is_consequence: bool,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// A possible or future problem. Requests are answered, but perhaps not by whom they should, or not for long.
    Warning,
    /// A problem. Requests fail, or something does not work.
    Error,
}

/// A command that removes the reason of a finding, or has to be run to find out more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remedy {
    /// The cluster to run it in, if the command does not name it.
    pub cluster: Option<String>,
    /// The command.
    pub command: Suggested,
}

impl Finding {
    /// An error with a cause of the table.
    pub fn broken(cause: Cause, evidence: impl Into<String>) -> Self {
        Self::new(cause, Level::Error, evidence)
    }

    /// A warning with a cause of the table.
    pub fn degraded(cause: Cause, evidence: impl Into<String>) -> Self {
        Self::new(cause, Level::Warning, evidence)
    }

    /// A finding with nothing to do about it yet.
    pub fn new(cause: Cause, level: Level, evidence: impl Into<String>) -> Self {
        Self {
            cause: Some(cause),
            level,
            ..evidence.into().into()
        }
    }

    /// A warning without a cause.
    pub fn warning(evidence: impl Into<String>) -> Self {
        Self {
            level: Level::Warning,
            ..evidence.into().into()
        }
    }

    /// What another finding keeps from being known.
    pub fn consequence(text: &str) -> Self {
        Self {
            is_consequence: true,
            ..text.into()
        }
    }

    /// The finding about the cluster of this name.
    pub fn of(self, name: &str) -> Self {
        Self {
            about: Some(name.to_owned()),
            ..self
        }
    }

    /// With the time since when it is so.
    pub fn since(self, since: Option<Timestamp>) -> Self {
        Self { since, ..self }
    }

    /// With the command that removes its reason, which names its cluster.
    pub fn fixed_by(mut self, command: &Suggested) -> Self {
        self.actions.push(Remedy {
            cluster: None,
            command: command.clone(),
        });
        self
    }

    /// The first command to run.
    pub fn remedy(&self) -> Option<&Suggested> {
        self.actions.first().map(|action| &action.command)
    }

    /// It and its commands in one text, for those who see no list of commands.
    pub fn told(&self) -> String {
        let commands = self.actions.iter().map(|action| match &action.cluster {
            Some(cluster) => format!("in {cluster}: {}", action.command),
            None => action.command.to_string(),
        });
        match commands.collect::<Vec<_>>().as_slice() {
            [] => self.line(),
            commands => format!("{}: run {}", self.line(), commands.join(", then ")),
        }
    }

    /// The name of its cause; empty if the table does not have it.
    pub fn name(&self) -> &'static str {
        self.cause.map_or("", |cause| cause.info().name)
    }

    /// It in one line, which begins with what it is about.
    pub fn line(&self) -> String {
        match &self.about {
            Some(name) => format!("{name}: {}", self.evidence),
            None => self.evidence.clone(),
        }
    }
}

/// How a finding looks to scripts. It is documented output.
#[derive(Serialize)]
struct FindingOutput<'a> {
    /// The cluster; `null` if it is that of the document.
    about: Option<&'a str>,
    level: Level,
    /// The name of the cause; `null` if the table of causes does not have it.
    cause: Option<&'static str>,
    /// What that means.
    meaning: Option<&'static str>,
    evidence: String,
    /// Since when it is so; absent if nothing tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// What fixes it, in words.
    fix: Option<&'static str>,
    commands: Vec<RemedyOutput<'a>>,
}

#[derive(Serialize)]
struct RemedyOutput<'a> {
    /// The cluster to run it in, if the command does not name it.
    cluster: Option<&'a str>,
    command: String,
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let info = self.cause.map(Cause::info);
        let commands = self.actions.iter().map(|action| RemedyOutput {
            cluster: action.cluster.as_deref(),
            command: one_line(action.command.line()),
        });
        let output = FindingOutput {
            about: self.about.as_deref(),
            level: self.level,
            cause: info.as_ref().map(|info| info.name),
            meaning: info.as_ref().map(|info| info.meaning),
            evidence: one_line(&self.evidence),
            since: self.since,
            fix: info.as_ref().map(|info| info.fix),
            commands: commands.collect(),
        };
        output.serialize(serializer)
    }
}

/// An error without a command, whatever the text looks like.
impl From<String> for Finding {
    fn from(evidence: String) -> Self {
        Self {
            about: None,
            level: Level::Error,
            cause: None,
            evidence,
            since: None,
            actions: Vec::new(),
            is_consequence: false,
        }
    }
}

/// The same.
impl From<&str> for Finding {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}
