//! A compact map for labels, annotations and selectors.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

/// Texts by key, sorted. Optimized for reading: every change rebuilds it.
///
/// All keys and values are in one string, to save memory: a `BTreeMap` takes 544 bytes for its first entry, and at
/// least 56 for each string.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Map {
    /// Keys and values, each key before its value.
    text: Box<str>,
    /// Where each key and each value ends in `text`.
    ends: Box<[u32]>,
}

impl Map {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            let (found, value) = self.pair(middle);
            match found.cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(value),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Whether the key exists.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.len()).map(|index| self.pair(index))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// Bytes of all keys and values.
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// Heap memory in bytes.
    pub fn weight(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends)
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds a key, or replaces its value.
    pub fn insert(&mut self, key: impl AsRef<str>, value: impl AsRef<str>) {
        let new = (key.as_ref(), value.as_ref());
        let made = self.iter().chain([new]).collect();
        *self = made;
    }

    /// Removes a key, if it exists.
    pub fn remove(&mut self, key: &str) {
        let made = self.iter().filter(|(own, _)| *own != key).collect();
        *self = made;
    }

    fn pair(&self, index: usize) -> (&str, &str) {
        let end = |at: usize| self.ends[at] as usize;
        let begin = (2 * index).checked_sub(1).map_or(0, end);
        let middle = end(2 * index);
        (
            &self.text[begin..middle],
            &self.text[middle..end(2 * index + 1)],
        )
    }
}

/// Of equal keys, the last one counts. Entries beyond 4 GiB are omitted; responses of API servers are much smaller.
impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(K, V)> = pairs.into_iter().collect();
        pairs.reverse();
        pairs.sort_by(|(a, _), (b, _)| a.as_ref().cmp(b.as_ref())); // stable
        pairs.dedup_by(|(a, _), (b, _)| a.as_ref() == b.as_ref());
        let length = |(key, value): &(K, V)| key.as_ref().len() + value.as_ref().len();
        let mut text = String::with_capacity(pairs.iter().map(length).sum());
        let mut ends = Vec::with_capacity(2 * pairs.len());
        for (key, value) in &pairs {
            let middle = text.len() + key.as_ref().len();
            let ended = (
                u32::try_from(middle),
                u32::try_from(middle + value.as_ref().len()),
            );
            let (Ok(middle), Ok(end)) = ended else { break };
            text.push_str(key.as_ref());
            text.push_str(value.as_ref());
            ends.extend([middle, end]);
        }
        Self {
            text: text.into(),
            ends: ends.into(),
        }
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Map {
    fn from(pairs: [(&str, &str); N]) -> Self {
        pairs.into_iter().collect()
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = Map;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("texts by key")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry::<String, String>()? {
                    pairs.push(pair);
                }
                Ok(pairs.into_iter().collect())
            }
        }

        deserializer.deserialize_map(Texts)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn map_behaves_like_a_btree_map(
            pairs in prop::collection::vec(("[a-cß\\x00]{0,3}", ".{0,4}"), 0..8),
            key in "[a-cß\\x00]{0,3}",
            value in ".{0,4}",
        ) {
            let mut tree: BTreeMap<String, String> = pairs.iter().cloned().collect();
            let mut map: Map = pairs.into_iter().collect();
            let same = |map: &Map, tree: &BTreeMap<String, String>| {
                let pairs = tree.iter().map(|(key, value)| (key.as_str(), value.as_str()));
                assert!(map.iter().eq(pairs), "{map:?} {tree:?}");
                assert_eq!(map.get(&key), tree.get(&key).map(String::as_str));
                assert_eq!((map.len(), map.is_empty()), (tree.len(), tree.is_empty()));
                assert_eq!(map.contains_key(&key), tree.contains_key(&key));
                assert_eq!(format!("{map:?}"), format!("{tree:?}"));
                let json = serde_json::to_string(map).unwrap();
                assert_eq!(json, serde_json::to_string(tree).unwrap());
                assert_eq!(&serde_json::from_str::<Map>(&json).unwrap(), map);
            };
            same(&map, &tree);
            map.insert(&key, &value);
            tree.insert(key.clone(), value);
            same(&map, &tree);
            map.remove(&key);
            tree.remove(&key);
            same(&map, &tree);
        }
    }
}
