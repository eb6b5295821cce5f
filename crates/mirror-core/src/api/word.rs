//! Strings that have one of a few common values in most objects.

use std::{fmt, ops::Deref};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A string. Common values take no heap memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Word(Text);

#[derive(Clone, PartialEq, Eq)]
enum Text {
    Known(&'static str),
    Other(Box<str>),
}

/// Protocols, address types, types of Services, and values of owner references.
const KNOWN: [&str; 11] = [
    "",
    "TCP",
    "UDP",
    "SCTP",
    "IPv4",
    "IPv6",
    "ClusterIP",
    "NodePort",
    "LoadBalancer",
    "v1",
    "Service",
];

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        let known = KNOWN.into_iter().find(|known| *known == text);
        Self(known.map_or_else(|| Text::Other(text.into()), Text::Known))
    }
}

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Text::Known(text) => text,
            Text::Other(text) => text,
        }
    }
}

impl Default for Word {
    fn default() -> Self {
        Self(Text::Known(""))
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| text.as_str().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown_words_keep_their_text() {
        for text in KNOWN.into_iter().chain(["tcp", "TCP "]) {
            let word = Word::from(text);
            assert_eq!(&word, text);
            let json = serde_json::to_string(text).unwrap();
            assert_eq!(serde_json::to_string(&word).unwrap(), json);
            assert_eq!(serde_json::from_str::<Word>(&json).unwrap(), word);
            assert_eq!(format!("{word:?}"), format!("{text:?}"));
        }
    }
}
