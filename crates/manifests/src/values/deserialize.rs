//! Values with more than one syntax, and resource requests and limits.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list, or a comma-separated string, as for some values of Linkerd's chart. Empty items are ignored.
pub fn text_or_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    text_or_list_or_null(deserializer).map(Option::unwrap_or_default)
}

/// The same, or null for none.
pub fn text_or_list_or_null<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TextOrList {
        Text(String),
        List(Vec<String>),
    }
    let given = Option::<TextOrList>::deserialize(deserializer)?;
    Ok(given.map(|given| {
        let mut list = match given {
            TextOrList::Text(text) => text.split(',').map(|item| item.trim().to_owned()).collect(),
            TextOrList::List(list) => list,
        };
        list.retain(|item| !item.is_empty());
        list
    }))
}

/// A number or a string with one; an empty string (the default of Linkerd's chart) or null for none.
pub fn number_or_empty<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum NumberOrText {
        Nothing(()),
        Number(u32),
        Text(String),
    }
    match NumberOrText::deserialize(deserializer)? {
        NumberOrText::Nothing(()) => Ok(None),
        NumberOrText::Number(number) => Ok(Some(number)),
        NumberOrText::Text(text) if text.is_empty() => Ok(None),
        NumberOrText::Text(text) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

/// A number, or empty text for none: null would be the default.
#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference to the field"
)]
pub fn number_or_nothing<S: Serializer>(
    number: &Option<u32>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => serializer.serialize_u32(*number),
        None => serializer.serialize_str(""),
    }
}

/// Quantities, as strings or numbers.
pub fn quantities<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Quantity {
        Number(serde_json::Number),
        Text(String),
    }
    let quantities = BTreeMap::<String, Quantity>::deserialize(deserializer)?;
    Ok(quantities
        .into_iter()
        .map(|(name, quantity)| match quantity {
            Quantity::Number(number) => (name, number.to_string()),
            Quantity::Text(text) => (name, text),
        })
        .collect())
}

/// Resource requests and limits of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Limits.
    #[serde(
        default,
        deserialize_with = "quantities",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub limits: BTreeMap<String, String>,
    /// Requests.
    #[serde(
        default,
        deserialize_with = "quantities",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub requests: BTreeMap<String, String>,
}
