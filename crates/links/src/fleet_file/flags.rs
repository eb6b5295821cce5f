//! The keys of the file that are flags of `link`, with their descriptions, and the rules of their values.

use std::any::TypeId;

use clap::{Arg, ArgAction, Command};

use manifests::{
    link::in_words,
    located::{Located, YamlContent},
};

/// Keys whose values messages do not quote: the URL of a proxy may have a password.
const SECRET: [&str; 1] = ["proxyUrl"];

/// The definition of the flags of `link`.
pub struct LinkFlags {
    command: Command,
    /// The rule that the text of a value breaks, if it breaks one; by its key.
    check: fn(&str, &str) -> Result<(), String>,
}

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
    /// The flags of this command, which describes them. `check` says which rule the text of a value breaks, by its key.
    pub fn new(mut command: Command, check: fn(&str, &str) -> Result<(), String>) -> Self {
        command.build();
        Self { command, check }
    }

    /// The flag of a key.
    pub fn arg(&self, key: &str) -> Option<&Arg> {
        let long = in_words(key, '-');
        let mut all = self.command.get_arguments();
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

    /// The text of a value, with commas between the items of a list. `Err` is the rule that the value breaks.
    pub fn value(&self, key: &str, value: &Located) -> Result<String, String> {
        let text = self.text(key, value)?;
        (self.check)(key, &text)?;
        Ok(text)
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
