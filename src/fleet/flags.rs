//! Values of the file as flags of `link`, which check them.

use std::{any::TypeId, error::Error as _};

use clap::{
    Arg, ArgAction, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use manifests::{
    link::in_words,
    located::{Located, YamlContent},
};

/// Keys whose values messages do not quote: the URL of a proxy may have a password.
const SECRET: [&str; 1] = ["proxyUrl"];

/// The definition of the flags of `link`.
#[derive(Debug)]
pub struct LinkFlags(Command);

/// What a flag takes.
#[derive(Debug, PartialEq, Eq)]
pub enum FlagShape {
    Bool,
    Number,
    Text,
    /// One of these words.
    Words(Vec<String>),
    /// Texts without commas.
    List,
}

impl LinkFlags {
    /// The flags of this command.
    pub fn new(command: Command) -> Self {
        let mut command = command.no_binary_name(true);
        command.build();
        Self(command)
    }

    /// The flag of a key.
    pub fn arg(&self, key: &str) -> Option<&Arg> {
        let long = in_words(key, '-');
        let mut all = self.0.get_arguments();
        all.find(|arg| arg.get_long() == Some(&long))
    }

    /// The description of a key, as one text.
    pub fn doc(&self, key: &str) -> String {
        let arg = self.arg(key);
        let help = arg.and_then(|arg| arg.get_long_help().or_else(|| arg.get_help()));
        help.map(ToString::to_string).unwrap_or_default()
    }

    /// What a key takes.
    pub fn shape(&self, key: &str) -> FlagShape {
        let Some(arg) = self.arg(key) else {
            return FlagShape::Text;
        };
        let words = arg.get_possible_values();
        let words: Vec<String> = words
            .iter()
            .map(|word| word.get_name().to_owned())
            .collect();
        let is = |kind: TypeId| arg.get_value_parser().type_id() == kind;
        if matches!(arg.get_action(), ArgAction::SetTrue) || is(TypeId::of::<bool>()) {
            FlagShape::Bool
        } else if arg.get_value_delimiter().is_some() {
            FlagShape::List
        } else if is(TypeId::of::<u16>()) {
            FlagShape::Number
        } else if words.is_empty() {
            FlagShape::Text
        } else {
            FlagShape::Words(words)
        }
    }

    /// The flag with this value, and the value for messages. `Err` is the rule that the value breaks.
    pub fn value(&self, key: &str, value: &Located) -> Result<(Option<String>, String), String> {
        let text = self.text(key, value)?;
        let flag = format!("--{}", in_words(key, '-'));
        let is_switch = self
            .arg(key)
            .is_some_and(|arg| matches!(arg.get_action(), ArgAction::SetTrue));
        let word = match (is_switch, text.as_str()) {
            (true, "true") => Some(flag),
            (true, _) => None,
            (false, text) => Some(format!("{flag}={text}")),
        };
        if let Some(word) = &word {
            let parsed = self.0.clone().try_get_matches_from([word]);
            parsed.map_err(|error| rule(&error))?;
        }
        let shown = if text.is_empty() {
            "nothing".to_owned()
        } else {
            text
        };
        Ok((word, shown))
    }

    /// The value as it is typed after the flag.
    fn text(&self, key: &str, value: &Located) -> Result<String, String> {
        let text = |value: &Located| value.text().map(str::to_owned);
        match self.shape(key) {
            FlagShape::Bool => match value.content {
                YamlContent::Bool(is) => Ok(is.to_string()),
                _ => Err("must be true or false".to_owned()),
            },
            FlagShape::Number => match &value.content {
                YamlContent::Number(number) => Ok(number.clone()),
                _ => Err("must be a number".to_owned()),
            },
            FlagShape::Text | FlagShape::Words(_) => text(value).ok_or_else(|| {
                "must be a text; quote what YAML reads as something else".to_owned()
            }),
            FlagShape::List => {
                let YamlContent::List(items) = &value.content else {
                    return text(value).ok_or_else(|| "must be a list of texts".to_owned());
                };
                let items = items.iter().map(|item| {
                    let item = text(item).filter(|text| !text.contains(',') && !text.is_empty());
                    item.ok_or_else(|| "must be a list of texts without commas".to_owned())
                });
                Ok(items.collect::<Result<Vec<_>, _>>()?.join(","))
            }
        }
    }

    /// What was given, for a message about it: `, got …`.
    pub fn got(key: &str, value: &Located) -> String {
        if SECRET.contains(&key) {
            return String::new();
        }
        format!(", got {}", value.shown())
    }
}

/// The rule that clap says is broken.
fn rule(error: &clap::Error) -> String {
    if let (ErrorKind::InvalidValue, Some(ContextValue::Strings(words))) =
        (error.kind(), error.get(ContextKind::ValidValue))
    {
        return format!("must be one of {}", words.join(", "));
    }
    match error.source() {
        Some(why) => why.to_string(),
        None => "is not a value of the flag".to_owned(),
    }
}
