//! YAML whose values know their lines, for files that people write: errors can name the place.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::yaml::{explained, quiet};

/// A value, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// Its line, counted from 1. An alias has the line at which it stands.
    pub line: u64,
    /// What stands there.
    pub content: YamlContent,
}

/// A value without its place.
#[derive(Clone, Debug, PartialEq)]
pub enum YamlContent {
    /// `null`, or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number. It may have been typed in another way: `007` is 7.
    Number(String),
    /// A string.
    Text(String),
    /// A sequence.
    List(Vec<Located>),
    /// Keys in the order of the file, each once.
    Map(Vec<(Located, Located)>),
}

/// Reads one YAML document. An empty one is null. The error has no excerpt of `text`.
pub fn from_yaml_located(text: &str) -> anyhow::Result<Located> {
    let read = serde_saphyr::from_str_with_options::<Option<Located>>(text, quiet());
    Ok(read.map_err(|error| explained(&error))?.unwrap_or(Located {
        line: 1,
        content: YamlContent::Null,
    }))
}

impl Located {
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            YamlContent::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value without its places.
    pub fn value(&self) -> Value {
        match &self.content {
            YamlContent::Null => Value::Null,
            YamlContent::Bool(is) => Value::Bool(*is),
            YamlContent::Number(text) => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
            }
            YamlContent::Text(text) => Value::String(text.clone()),
            YamlContent::List(items) => items.iter().map(Self::value).collect(),
            YamlContent::Map(entries) => {
                let entries = entries.iter();
                entries
                    .map(|(key, value)| (key.key(), value.value()))
                    .collect()
            }
        }
    }

    /// What it is called as the key of a map.
    pub fn key(&self) -> String {
        self.text().map_or_else(|| self.shown(), str::to_owned)
    }

    /// What it is, for messages: short, and on one line.
    pub fn shown(&self) -> String {
        match &self.content {
            YamlContent::Null => "nothing".to_owned(),
            YamlContent::Bool(is) => is.to_string(),
            YamlContent::Number(text) => text.clone(),
            YamlContent::Text(text) => match text.char_indices().nth(60) {
                Some((end, _)) => format!("{:?}…", &text[..end]),
                None => format!("{text:?}"),
            },
            YamlContent::List(_) => "a list".to_owned(),
            YamlContent::Map(_) => "a map".to_owned(),
        }
    }
}

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Spanned::<YamlContent>::deserialize(deserializer)?;
        Ok(Self {
            line: read.referenced.line(),
            content: read.value,
        })
    }
}

impl<'de> Deserialize<'de> for YamlContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = YamlContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<YamlContent, E> {
        Ok(YamlContent::Null)
    }

    fn visit_none<E>(self) -> Result<YamlContent, E> {
        Ok(YamlContent::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<YamlContent, D::Error> {
        YamlContent::deserialize(inner)
    }

    fn visit_bool<E>(self, is: bool) -> Result<YamlContent, E> {
        Ok(YamlContent::Bool(is))
    }

    fn visit_i64<E>(self, number: i64) -> Result<YamlContent, E> {
        Ok(YamlContent::Number(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<YamlContent, E> {
        Ok(YamlContent::Number(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<YamlContent, E> {
        Ok(YamlContent::Number(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<YamlContent, E> {
        Ok(YamlContent::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<YamlContent, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(YamlContent::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<YamlContent, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(YamlContent::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scalars and keys of a document, each as `line:text`.
    fn lines(text: &str) -> String {
        fn add(found: &mut Vec<String>, node: &Located) {
            match &node.content {
                YamlContent::List(list) => list.iter().for_each(|item| add(found, item)),
                YamlContent::Map(map) => map.iter().for_each(|(key, value)| {
                    add(found, key);
                    add(found, value);
                }),
                _ => found.push(format!("{}:{}", node.line, node.shown())),
            }
        }
        let mut found = Vec::new();
        add(&mut found, &from_yaml_located(text).unwrap());
        found.join(" ")
    }

    #[test]
    fn each_key_and_value_knows_its_line() {
        for (text, expected) in [
            ("", "1:nothing"),
            ("# nothing\n", "1:nothing"),
            (
                "a: 1\n\n# comment\nb:\n  c: [x, 'y']\n  d:\n",
                "1:\"a\" 1:1 4:\"b\" 5:\"c\" 5:\"x\" 5:\"y\" 6:\"d\" 6:nothing",
            ),
            (
                "- a: true\n  b: |\n    long\n- 007\n",
                "1:\"a\" 1:true 2:\"b\" 3:\"long\\n\" 4:7",
            ),
            // An alias stands where it is used.
            (
                "all: &all\n- x\nmesh: *all\n",
                "1:\"all\" 2:\"x\" 3:\"mesh\" 3:\"x\"",
            ),
        ] {
            assert_eq!(lines(text), expected, "{text:?}");
        }
        let twice = from_yaml_located("a: 1\nb: 2\na: 3\n").unwrap_err();
        assert_eq!(
            twice.to_string(),
            "a key occurs twice in one map, at line 3"
        );
        assert!(from_yaml_located("a: [s3cret\n").is_err());
    }
}
