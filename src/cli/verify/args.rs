//! The flags of `verify`.

use std::{path::PathBuf, time::Duration};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use clap_complete::ArgValueCompleter;
use observe::verify::CanaryMode;

use crate::cli::common::{
    args::{duration, namespace, timeout},
    complete,
    format::OutputFormat,
};

/// The shortest time in which a run may have to end. Pods start in it, and namespaces are deleted.
const SHORTEST: Duration = Duration::from_secs(30);

const EXAMPLES: &str = "\
Examples:
  # Send requests from west to east, in each mode that the Link offers
  linkerd-mc verify --target east --source west

  # Only through the gateway
  linkerd-mc verify --target east --source west --mode gateway

  # In CI: a report, and the slowest mode
  linkerd-mc verify --target east --source west --junit verify.xml -o json \\
    | jq '[.steps[] | select(.step == \"request\")] | max_by(.milliseconds)'

  # Only remove what a run that was killed has left
  linkerd-mc verify --target east --source west --cleanup

Exit codes: 0 all steps passed; 1 one failed, or none was possible.";

/// Send requests to another cluster with canaries, and measure
///
/// Creates a namespace of its own in both clusters, a server in the target cluster, and a client in the source cluster.
/// For each mode that the Link offers, it creates a Service in the target cluster, and measures how long it takes until its
/// mirror exists, until it has endpoints, and until a request of the client is answered. It checks whose identity the
/// server saw. At the end it deletes everything, also after an error or Ctrl-C. What a run that was killed has left is
/// deleted by the next one.
///
/// Clusters, Link, controller and permissions are checked before anything is written.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct VerifyArgs {
    /// Context of the target cluster, whose Services are mirrored
    #[arg(long, value_name = "CONTEXT", add = ArgValueCompleter::new(complete::contexts))]
    pub target: String,
    /// Context of the source cluster, where the mirrors are created
    #[arg(long, value_name = "CONTEXT", add = ArgValueCompleter::new(complete::contexts))]
    pub source: String,
    /// Name of the Link in the source cluster [default: the only one to the target cluster]
    #[arg(long, value_name = "NAME", value_parser = super::super::common::args::object_name)]
    pub link: Option<String>,
    /// Modes to try [default: all that the Link offers]
    #[arg(
        long, value_name = "MODE", value_delimiter = ',',
        value_parser = PossibleValuesParser::new(CanaryMode::ALL.map(CanaryMode::as_str)).map(|name| mode(&name))
    )]
    pub mode: Vec<CanaryMode>,
    /// Namespace of the canaries. It must not exist, unless a killed run has left it, or it is kept for them
    #[arg(short, long, value_name = "NAMESPACE", default_value = "linkerd-mc-verify", value_parser = namespace)]
    pub namespace: String,
    /// Image of client and server, with this version of linkerd-mc [default: the one of the source cluster's controller]
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    pub image: Option<String>,
    /// Write a `JUnit` report to this file
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Only delete what an earlier run has left
    #[arg(long, conflicts_with_all = ["mode", "image", "junit", "link"])]
    pub cleanup: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// Most time that the run may take, with the deletion at the end
    #[arg(long, value_name = "DURATION", default_value = "90s", value_parser = whole)]
    pub timeout: Duration,
    /// Timeout of each request to a cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    pub request_timeout: Duration,
}

impl VerifyArgs {
    /// The modes to try.
    pub fn modes(&self) -> Vec<CanaryMode> {
        let all = CanaryMode::ALL.into_iter();
        all.filter(|mode| self.mode.is_empty() || self.mode.contains(mode))
            .collect()
    }
}

/// The mode of a name. clap accepts no others.
fn mode(name: &str) -> CanaryMode {
    let mut all = CanaryMode::ALL.into_iter();
    all.find(|mode| mode.as_str() == name)
        .unwrap_or(CanaryMode::Gateway)
}

/// Parses the name of an image.
fn image(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-:/@".contains(c);
    if text.is_empty() || text.contains("://") || !text.chars().all(allowed) {
        return Err("must be an image such as registry.example.com/linkerd-mc:0.1.0".to_owned());
    }
    Ok(text.to_owned())
}

/// Parses the time of a run.
fn whole(text: &str) -> Result<Duration, String> {
    let whole = duration(text).map_err(|error| error.to_string())?;
    if whole < SHORTEST {
        return Err(format!("must be at least {}s", SHORTEST.as_secs()));
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_its_name() {
        for known in CanaryMode::ALL {
            assert_eq!(mode(known.as_str()), known);
        }
    }

    #[test]
    fn images_are_names_and_runs_take_their_time() {
        for good in ["linkerd-mc:0.1.0", "a.example:5000/b/c@sha256:0123"] {
            assert!(image(good).is_ok(), "{good}");
        }
        for bad in ["", "https://a.example/b", "a b", "a\n"] {
            assert!(image(bad).is_err(), "{bad:?}");
        }
        assert_eq!(whole("30s"), Ok(SHORTEST));
        assert_eq!(whole("29s"), Err("must be at least 30s".to_owned()));
    }
}
