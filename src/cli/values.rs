//! Flags that set values, as in Helm.

use anyhow::Context as _;
use clap::{Args, ValueHint};

use super::output;
use crate::{
    hint::HintExt as _,
    manifests::values::{Typing, UserValues, Values},
};

/// Values from files and flags.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Values")]
pub(crate) struct ValueArgs {
    /// Set values from a YAML file; - is stdin (repeatable)
    #[arg(short = 'f', long, value_name = "FILE", value_delimiter = ',', value_hint = ValueHint::FilePath)]
    values: Vec<String>,
    /// Set values, such as gateway.replicas=2,podLabels.team=mesh (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Like --set, but all values are text (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    set_string: Vec<String>,
    /// Like --set, but read each value from a file (repeatable)
    #[arg(long, value_name = "KEY=FILE")]
    set_file: Vec<String>,
}

impl ValueArgs {
    /// Merges these values over `base`, and warns of obsolete ones.
    pub(crate) fn over(&self, base: &Values) -> anyhow::Result<Values> {
        let mut given = UserValues::default();
        for name in &self.values {
            let shown = if name == "-" { "stdin" } else { name };
            given.add_file(shown, &read(name)?)?;
        }
        for text in &self.set {
            given.add_set("--set", text, Typing::Infer)?;
        }
        for text in &self.set_string {
            given.add_set("--set-string", text, Typing::Text)?;
        }
        for text in &self.set_file {
            given.add_set_file(text, read)?;
        }
        let (values, warnings) = given.over(base)?;
        for warning in warnings {
            output::warning(&warning);
        }
        Ok(values)
    }
}

fn read(name: &str) -> anyhow::Result<String> {
    if name == "-" {
        return std::io::read_to_string(std::io::stdin()).context("cannot read values from stdin");
    }
    std::fs::read_to_string(name).hint(
        || format!("cannot read the file {name}"),
        || "check the path".into(),
    )
}
