//! Bytes as a row of choices. When they run out, each further choice is the first one.

use serde_json::{Map, Value, json};

/// The bytes that are left for further choices.
pub(super) struct Draw<'a>(pub(super) &'a [u8]);

impl<'a> Draw<'a> {
    /// The next byte.
    pub(super) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// A number below `end`, which is at most 256.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// `false` or `true`. The first choice is `false`.
    pub(super) fn flip(&mut self) -> bool {
        self.below(2) == 1
    }

    /// One of these.
    pub(super) fn pick<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }

    /// At most so many of the next bytes.
    pub(super) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// One of these words, several of them in a row, or any text.
    pub(super) fn text(&mut self, words: &[&str]) -> String {
        match self.below(4) {
            0 | 1 => (*self.pick(words)).to_owned(),
            2 => (0..self.below(5)).map(|_| *self.pick(words)).collect(),
            _ => {
                let length = self.below(32);
                String::from_utf8_lossy(self.bytes(length)).into_owned()
            }
        }
    }

    /// Any JSON, at most so deep.
    pub(super) fn json(&mut self, words: &[&str], depth: usize) -> Value {
        match self.below(if depth == 0 { 6 } else { 8 }) {
            0 | 1 => self.text(words).into(),
            2 => Value::Null,
            3 => self.flip().into(),
            4 => (i64::from(self.byte()) - 1).into(),
            5 => json!(f64::from(self.byte()) * 1e300),
            6 => (0..self.below(4))
                .map(|_| self.json(words, depth - 1))
                .collect(),
            _ => {
                let mut map = Map::new();
                for _ in 0..self.below(4) {
                    map.insert(self.text(words), self.json(words, depth - 1));
                }
                map.into()
            }
        }
    }

    /// The text with a few bytes changed, added or taken away.
    pub(super) fn garble(&mut self, text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                break;
            }
            let at = (self.below(256) * 256 + self.below(256)) % bytes.len();
            match self.below(3) {
                0 => bytes[at] = self.byte(),
                1 => bytes.insert(at, self.byte()),
                _ => drop(bytes.remove(at)),
            }
        }
        bytes
    }
}

/// Puts a value where a JSON pointer leads to, if its last step starts from a map.
pub(super) fn put(tree: &mut Value, pointer: &str, value: Value) {
    if let Some((parent, key)) = pointer.rsplit_once('/')
        && let Some(Value::Object(map)) = tree.pointer_mut(parent)
    {
        map.insert(key.replace("~1", "/"), value);
    }
}

/// Holds a message to be one line that does nothing to a terminal.
pub(super) fn is_one_line(message: &str) {
    assert!(!message.is_empty(), "an error says nothing");
    assert!(!message.contains(char::is_control), "{message:?}");
}
