//! Types of values, and their validation.

use std::net::IpAddr;

use mirror_core::api::{
    duration::parse_go_duration,
    names::{is_dns_label, is_label_key, is_label_value},
    selector_text::parse_selector,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{accounts::refuse_taken, deserialize::Resources, set::Path};

/// Labels that our selectors use.
pub const OUR_LABELS: [&str; 3] = ["app", "component", "linkerd.io/extension"];

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number, from at least the one given.
    Number(u32),
    /// A whole number between both.
    Range(u32, u32),
    /// A whole number, also as text; null or empty text for none.
    OptionalNumber,
    /// A user or group other than root, also as text; empty text for none.
    OptionalId,
    /// A port.
    Port,
    /// A port; null or 0 for none.
    OptionalPort,
    /// Text, which may be empty.
    Text,
    /// Text that is not empty.
    Word,
    /// An IP address, or nothing.
    OptionalAddress,
    /// A DNS label.
    Name,
    /// A DNS label, or nothing.
    OptionalName,
    /// An absolute URL path.
    UrlPath,
    /// A duration such as `30s`.
    Duration,
    /// A label selector.
    Selector,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Labels of our objects, except the reserved ones.
    Labels,
    /// Labels of nodes.
    NodeLabels,
    /// Annotations.
    Annotations,
    /// A list of texts.
    List,
    /// A list of texts, or one text with commas.
    TextOrList,
    /// Names of namespaces, as a list or as one text with commas, or nothing.
    Namespaces,
    /// Names of accounts of other clusters, as a list or as one text with commas.
    AccountNames,
    /// A type of Kubernetes: its description, and a function that validates it.
    Kubernetes(&'static str, fn(&Value) -> Result<(), String>),
}

impl Kind {
    /// The rest of a message that begins with "must be".
    pub fn expected(self) -> String {
        match self {
            Self::Bool => "true or false".into(),
            Self::Number(0) => "a whole number".into(),
            Self::Number(min) => format!("a whole number from {min}"),
            Self::Range(min, max) => format!("a whole number from {min} to {max}"),
            Self::OptionalNumber => "a whole number, or null".into(),
            Self::OptionalId => "a whole number from 1, or empty text".into(),
            Self::Port => "a port from 1 to 65535".into(),
            Self::OptionalPort => "a port from 1 to 65535, or null".into(),
            Self::Text => "text".into(),
            Self::Word => "non-empty text".into(),
            Self::OptionalAddress => "an IP address, or empty text".into(),
            Self::Name => {
                "a DNS label: up to 63 lowercase letters, digits and '-', starting and ending with a letter or digit".into()
            }
            Self::OptionalName => {
                "a DNS label of up to 63 lowercase letters, digits and '-', or empty text".into()
            }
            Self::UrlPath => "a path that begins with /".into(),
            Self::Duration => "a duration such as 30s or 1m30s".into(),
            Self::Selector => "a label selector such as a=b,c in (d,e)".into(),
            Self::OneOf(words) => {
                let words: Vec<_> = words
                    .iter()
                    .map(|word| if word.is_empty() { "\"\"" } else { word })
                    .collect();
                format!("one of {}", words.join(", "))
            }
            Self::Labels | Self::NodeLabels => "a map of labels with text values".into(),
            Self::Annotations => "a map of annotations with text values".into(),
            Self::List => "a list of texts".into(),
            Self::TextOrList => "text, or a list of texts".into(),
            Self::Namespaces => {
                "names of namespaces, as text or as a list; null for those of Kubernetes and linkerdNamespace".into()
            }
            Self::AccountNames => "names of accounts, as text or as a list".into(),
            Self::Kubernetes(what, _) => what.into(),
        }
    }

    /// Validates a value. The error is empty if there is no more to say than what was [expected](Self::expected).
    pub fn check(self, value: &Value) -> Result<(), String> {
        let wrong = || Err(String::new());
        let good = |good: bool| if good { Ok(()) } else { wrong() };
        let text = value.as_str();
        let number = value.as_u64();
        match self {
            Self::Bool => good(value.is_boolean()),
            Self::Number(min) => {
                good(number.is_some_and(|n| (min.into()..=u32::MAX.into()).contains(&n)))
            }
            Self::Range(min, max) => {
                good(number.is_some_and(|n| (min.into()..=max.into()).contains(&n)))
            }
            Self::OptionalNumber => good(
                number.is_some_and(|n| n <= u32::MAX.into())
                    || text.is_some_and(|text| text.is_empty() || text.parse::<u32>().is_ok()),
            ),
            Self::OptionalId => good(
                number.is_some_and(|n| (1..=u32::MAX.into()).contains(&n))
                    || text.is_some_and(|text| {
                        text.is_empty() || text.parse::<u32>().is_ok_and(|id| id > 0)
                    }),
            ),
            Self::Port => good(number.is_some_and(|n| (1..=u16::MAX.into()).contains(&n))),
            Self::OptionalPort => good(number.is_some_and(|n| n <= u16::MAX.into())),
            Self::Text => good(text.is_some()),
            Self::Word => good(text.is_some_and(|text| !text.is_empty())),
            Self::OptionalAddress => {
                good(text.is_some_and(|text| text.is_empty() || text.parse::<IpAddr>().is_ok()))
            }
            Self::Name => good(text.is_some_and(is_dns_label)),
            Self::OptionalName => {
                good(text.is_some_and(|text| text.is_empty() || is_dns_label(text)))
            }
            Self::UrlPath => good(text.is_some_and(|text| text.starts_with('/'))),
            Self::Duration => good(text.is_some_and(|text| parse_go_duration(text).is_ok())),
            Self::Selector => match text {
                Some(text) => parse_selector(text)
                    .map(drop)
                    .map_err(|error| error.to_string()),
                None => wrong(),
            },
            Self::OneOf(words) => good(text.is_some_and(|text| words.contains(&text))),
            Self::Labels => {
                entries(value, |value| value.as_str().is_some_and(is_label_value))?;
                let reserved = OUR_LABELS
                    .into_iter()
                    .find(|label| value.get(label).is_some());
                reserved.map_or(Ok(()), |label| {
                    Err(format!("the label {label} is reserved"))
                })
            }
            Self::NodeLabels => entries(value, |value| value.as_str().is_some_and(is_label_value)),
            Self::Annotations => entries(value, Value::is_string),
            Self::List => good(is_list_of_texts(value)),
            Self::TextOrList => good(text.is_some() || is_list_of_texts(value)),
            Self::Namespaces => {
                Self::TextOrList.check(value)?;
                namespaces(value)
            }
            Self::AccountNames => {
                Self::TextOrList.check(value)?;
                account_names(value)
            }
            Self::Kubernetes(_, check) => check(value),
        }
    }
}

/// Refuses names of accounts that others need.
fn account_names(value: &Value) -> Result<(), String> {
    names(value).try_for_each(|name| refuse_taken(name).map_err(|rule| format!("{name} {rule}")))
}

/// The names of a list, or of one text with commas.
fn names(value: &Value) -> impl Iterator<Item = &str> {
    let text = value.as_str().into_iter();
    let of_text = text.flat_map(|text| text.split(',').map(str::trim));
    let items = value.as_array().into_iter().flatten();
    of_text
        .chain(items.filter_map(Value::as_str))
        .filter(|name| !name.is_empty())
}

/// Validates names of namespaces, as a list or as one text with commas.
fn namespaces(value: &Value) -> Result<(), String> {
    let invalid = names(value).find(|name| !is_dns_label(name));
    invalid.map_or(Ok(()), |name| {
        Err(format!("invalid namespace name {name:?}"))
    })
}

fn is_list_of_texts(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|items| items.iter().all(Value::is_string))
}

fn entries(value: &Value, fits: impl Fn(&Value) -> bool) -> Result<(), String> {
    let map = value.as_object().ok_or_else(String::new)?;
    for (key, value) in map {
        if !is_label_key(key) {
            return Err(format!("invalid label or annotation key {key:?}"));
        }
        if !value.is_null() && !fits(value) {
            return Err(format!("invalid value {value} of {key}"));
        }
    }
    Ok(())
}

/// Whether a value is a `T` of Kubernetes, without unknown fields.
pub fn fits<T: DeserializeOwned + Serialize>(value: &Value) -> Result<(), String> {
    let typed: T = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    let back = serde_json::to_value(typed).map_err(|error| error.to_string())?;
    lost(&Path::default(), value, &back)
        .map_or(Ok(()), |field| Err(format!("unknown field {field:?}")))
}

pub fn fits_resources(value: &Value) -> Result<(), String> {
    serde_json::from_value::<Resources>(value.clone())
        .map(drop)
        .map_err(|error| error.to_string())
}

/// The first field of `before` that is not in `after`.
fn lost(path: &Path, before: &Value, after: &Value) -> Option<String> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => before
            .iter()
            .filter(|(_, value)| !value.is_null())
            .find_map(|(key, value)| match after.get(key) {
                Some(after) => lost(&path.key(key), value, after),
                None => Some(path.key(key).to_string()),
            }),
        (Value::Array(before), Value::Array(after)) => before
            .iter()
            .zip(after)
            .find_map(|(before, after)| lost(path, before, after)),
        _ => None,
    }
}

/// A key or a group of keys.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Dotted path.
    pub path: &'static str,
    /// What is at this path.
    pub shape: Shape,
    /// Its description: a sentence without a period.
    pub doc: &'static str,
}

impl Entry {
    /// Its path as a JSON pointer.
    pub fn pointer(&self) -> String {
        pointer(self.path)
    }
}

/// A dotted path as a JSON pointer.
pub fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// What is at a path.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A value of this kind.
    Value(Kind),
    /// A group with these entries.
    Group(&'static [Entry]),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::values::schema::find;

    #[test]
    fn values_are_checked_by_kind() {
        let check = |path: &str, value: Value| match find(path) {
            Some(Shape::Value(kind)) => kind.check(&value),
            _ => Err(format!("unknown key {path}")),
        };
        for (path, good, bad) in [
            ("gateway.enabled", json!(false), json!("false")),
            ("gateway.replicas", json!(0), json!(-1)),
            ("gateway.probe.seconds", json!(1), json!(0)),
            ("controller.maxInFlightWrites", json!(1000), json!(1001)),
            ("gateway.port", json!(65535), json!(65536)),
            ("federation.holdDown", json!("1m30s"), json!("30")),
            ("federation.holdDown", json!("0s"), json!(30)),
            ("gateway.nodePort", json!(0), json!("30000")),
            ("gateway.name", json!("gw"), json!("GW")),
            (
                "controller.networkPolicy.egressPorts",
                json!([443]),
                json!([0]),
            ),
            ("gateway.probe.path", json!("/r"), json!("r")),
            (
                "apiGateway.apiServerAddress",
                json!("fd00::1"),
                json!("10.0.0"),
            ),
            (
                "apiGateway.apiServerAddress",
                json!(""),
                json!("kubernetes"),
            ),
            (
                "gateway.serviceType",
                json!("NodePort"),
                json!("ExternalName"),
            ),
            (
                "gateway.terminationGracePeriodSeconds",
                json!("30"),
                json!("soon"),
            ),
            ("gateway.UID", json!(""), json!(0)),
            ("controller.GID", json!("1000"), json!(null)),
            (
                "gateway.topologySpreadConstraints",
                json!([{ "maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule" }]),
                json!([{ "skew": 1 }]),
            ),
            (
                "gateway.loadBalancerSourceRanges",
                json!(["10.0.0.0/8"]),
                json!("10.0.0.0/8"),
            ),
            (
                "gateway.serviceAnnotations",
                json!({ "a.b/c": "any thing" }),
                json!({ "a": 1 }),
            ),
            (
                "gateway.nodeSelector",
                json!({ "a": "b" }),
                json!({ "a": true }),
            ),
            (
                "gateway.tolerations",
                json!([{ "key": "a", "operator": "Exists" }]),
                json!([{ "kye": "a" }]),
            ),
            (
                "commonLabels",
                json!({ "team": "a" }),
                json!({ "component": "a" }),
            ),
            ("podLabels", json!({ "team": "" }), json!({ "team": "a b" })),
            ("nodeAffinity", json!({}), json!({ "require": [] })),
            (
                "controller.resources",
                json!({ "limits": { "cpu": 1 } }),
                json!({ "cpu": { "limit": 1 } }),
            ),
            (
                "controller.additionalEnv",
                json!([{ "name": "A", "value": "b" }]),
                json!([{ "nam": "b" }]),
            ),
            ("federation.selector", json!("a=b"), json!("a>1")),
            ("federation.excludedLabels", json!("a,b"), json!([1])),
            ("protectedNamespaces", json!("a, b"), json!("a,B")),
            ("protectedNamespaces", json!([]), json!(["a", 1])),
            ("protectedNamespaces", json!(""), json!({})),
            (
                "remoteMirrorServiceAccountName",
                json!("west, viewer"),
                json!("west, cluster-admin"),
            ),
            (
                "remoteMirrorServiceAccountName",
                json!(["west", "viewer"]),
                json!(["west", "edit"]),
            ),
            (
                "remoteMirrorServiceAccountName",
                json!([]),
                json!("linkerd-multicluster-controller"),
            ),
            (
                "remoteMirrorServiceAccountName",
                json!("default-west"),
                json!(["default"]),
            ),
            ("imagePullSecrets", json!([{ "name": "a" }]), json!(["a"])),
        ] {
            assert_eq!(check(path, good), Ok(()), "{path}");
            assert!(check(path, bad.clone()).is_err(), "{path}: {bad}");
        }
    }
}
