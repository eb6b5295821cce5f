//! Strings that have one of a few common values in most objects.

use std::{borrow::Cow, fmt, ops::Deref};

use serde::{Deserialize, Serialize};

/// A string. Common values take no heap memory.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String")]
pub struct InternedStr(Cow<'static, str>);

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

impl From<&str> for InternedStr {
    fn from(text: &str) -> Self {
        let known = KNOWN.into_iter().find(|known| *known == text);
        Self(known.map_or_else(|| Cow::Owned(text.to_owned()), Cow::Borrowed))
    }
}

impl From<String> for InternedStr {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl InternedStr {
    /// Heap memory in bytes.
    pub fn weight(&self) -> usize {
        match &self.0 {
            Cow::Borrowed(_) => 0,
            Cow::Owned(text) => text.len(),
        }
    }
}

impl Deref for InternedStr {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for InternedStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl PartialEq<str> for InternedStr {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown_words_keep_their_text() {
        for text in KNOWN.into_iter().chain(["tcp", "TCP "]) {
            let word = InternedStr::from(text);
            assert_eq!(&word, text);
            let json = serde_json::to_string(text).unwrap();
            assert_eq!(serde_json::to_string(&word).unwrap(), json);
            assert_eq!(serde_json::from_str::<InternedStr>(&json).unwrap(), word);
            assert_eq!(format!("{word:?}"), format!("{text:?}"));
        }
    }
}
