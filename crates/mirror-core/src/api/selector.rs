//! Label selectors, parsed once: which labels they match, and their text in requests to the API server.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use thiserror::Error;

use super::{
    map::Map,
    names::{is_label_key, is_label_value},
    text::short,
};

/// A selector with at least one requirement; an object matches if it meets all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Requirement {
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
    Exists(String),
    DoesNotExist(String),
}

/// Why a selector, or the text of one, is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectorError {
    /// An invalid key.
    #[error("invalid label key {0:?}")]
    Key(String),
    /// An invalid value.
    #[error("invalid label value {0:?} (up to 63 letters, digits, '-', '_' and '.')")]
    Value(String),
    /// The operator is not `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[error("unknown selector operator {0:?}")]
    Operator(String),
    /// `In` or `NotIn` without values.
    #[error("operator {0} requires at least one value")]
    NoValues(&'static str),
    /// `<` or `>`.
    #[error(
        "operator {0:?} is not supported in a Link (supported: =, ==, !=, in, notin, key, !key)"
    )]
    Comparison(char),
    /// An unknown operator.
    #[error("unknown operator {found:?} after key {key:?} (supported: =, ==, !=, in, notin)")]
    NotAnOperator {
        /// The key before it.
        key: String,
        /// The text in place of an operator.
        found: String,
    },
    /// `in` or `notin` without its list.
    #[error("{0:?} requires a list of values, such as: key {0} (a, b)")]
    MissingList(String),
    /// An opening parenthesis without its closing one.
    #[error("missing closing parenthesis")]
    Unclosed,
    /// A comma with nothing before or after it.
    #[error("missing requirement before or after a comma")]
    Missing,
}

impl Selector {
    /// Parses a Link's selector. The result for an absent or empty one is `None`: it matches nothing, as in Linkerd.
    pub fn parse(selector: Option<&LabelSelector>) -> Result<Option<Self>, SelectorError> {
        let Some(selector) = selector else {
            return Ok(None);
        };
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push(Requirement::In(
                label_key(key)?,
                [label_value(value)?].into(),
            ));
        }
        for expression in selector.match_expressions.iter().flatten() {
            let key = label_key(&expression.key)?;
            let values = || {
                expression
                    .values
                    .iter()
                    .flatten()
                    .map(|v| label_value(v))
                    .collect::<Result<_, _>>()
            };
            requirements.push(match expression.operator.as_str() {
                "In" => Requirement::In(key, some(values()?, "In")?),
                "NotIn" => Requirement::NotIn(key, some(values()?, "NotIn")?),
                "Exists" => Requirement::Exists(key),
                "DoesNotExist" => Requirement::DoesNotExist(key),
                other => return Err(SelectorError::Operator(other.to_owned())),
            });
        }
        requirements.sort();
        Ok((!requirements.is_empty()).then_some(Self(requirements)))
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &Map) -> bool {
        self.selects(|key| labels.get(key))
    }

    /// Whether an object is selected. `label` returns the value of a label of the object.
    pub fn selects<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => label(key).is_some_and(|v| values.contains(v)),
            Requirement::NotIn(key, values) => label(key).is_none_or(|v| !values.contains(v)),
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::DoesNotExist(key) => label(key).is_none(),
        })
    }

    /// The `labelSelector` parameter of a list or watch request.
    pub fn query(&self) -> String {
        let list = |values: &BTreeSet<String>| {
            let values: Vec<_> = values.iter().cloned().collect();
            values.join(",")
        };
        let requirements = self.0.iter().map(|requirement| match requirement {
            Requirement::In(key, values) => format!("{key} in ({})", list(values)),
            Requirement::NotIn(key, values) => format!("{key} notin ({})", list(values)),
            Requirement::Exists(key) => key.clone(),
            Requirement::DoesNotExist(key) => format!("!{key}"),
        });
        requirements.collect::<Vec<_>>().join(",")
    }

    /// One selector that matches what either of the two matches. It exists only if both list values of the same key and
    /// have no other requirement.
    ///
    /// With one selector there is one watch. If the label of a Service changes from one value to the other, that watch
    /// sends a modification. Two watches would send a deletion first and a creation later.
    pub fn union(&self, other: &Self) -> Option<Self> {
        match (self.0.as_slice(), other.0.as_slice()) {
            ([Requirement::In(a, left)], [Requirement::In(b, right)]) if a == b => {
                Some(Self(vec![Requirement::In(a.clone(), left | right)]))
            }
            _ if self == other => Some(self.clone()),
            _ => None,
        }
    }
}

/// The values of an operator that requires at least one.
fn some(
    values: BTreeSet<String>,
    operator: &'static str,
) -> Result<BTreeSet<String>, SelectorError> {
    let values = (!values.is_empty()).then_some(values);
    values.ok_or(SelectorError::NoValues(operator))
}

/// The key, if Kubernetes accepts it.
pub(super) fn label_key(key: &str) -> Result<String, SelectorError> {
    let accepted = is_label_key(key).then(|| key.to_owned());
    accepted.ok_or_else(|| SelectorError::Key(short(key)))
}

/// The value, if Kubernetes accepts it.
pub(super) fn label_value(value: &str) -> Result<String, SelectorError> {
    let accepted = is_label_value(value).then(|| value.to_owned());
    accepted.ok_or_else(|| SelectorError::Value(short(value)))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Map {
        pairs.iter().copied().collect()
    }

    fn equals(key: &str, value: &str) -> LabelSelector {
        LabelSelector {
            match_labels: Some([(key.to_owned(), value.to_owned())].into()),
            ..Default::default()
        }
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: key.into(),
                operator: operator.into(),
                values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
            }]),
            ..Default::default()
        }
    }

    #[test]
    fn absent_and_empty_selectors_match_nothing() {
        assert_eq!(Selector::parse(None), Ok(None));
        assert_eq!(Selector::parse(Some(&LabelSelector::default())), Ok(None));
    }

    #[test]
    fn each_operator_matches_and_is_written_as_in_kubernetes() {
        /// A selector, its query, labels, and whether they match.
        type Case = (
            LabelSelector,
            &'static str,
            &'static [(&'static str, &'static str)],
            bool,
        );
        let cases: [Case; 10] = [
            (equals("a", "x"), "a in (x)", &[("a", "x")], true),
            (equals("a", "x"), "a in (x)", &[("a", "y")], false),
            (equals("a", "x"), "a in (x)", &[], false),
            (
                expression("a", "In", &["y", "x"]),
                "a in (x,y)",
                &[("a", "y")],
                true,
            ),
            (
                expression("a", "NotIn", &["x"]),
                "a notin (x)",
                &[("a", "x")],
                false,
            ),
            (expression("a", "NotIn", &["x"]), "a notin (x)", &[], true),
            (
                expression("e.io/a", "Exists", &[]),
                "e.io/a",
                &[("e.io/a", "")],
                true,
            ),
            (expression("a", "Exists", &[]), "a", &[], false),
            (
                expression("a", "DoesNotExist", &[]),
                "!a",
                &[("a", "")],
                false,
            ),
            (expression("a", "DoesNotExist", &[]), "!a", &[], true),
        ];
        for (selector, query, with, expected) in cases {
            let parsed = Selector::parse(Some(&selector)).unwrap().unwrap();
            assert_eq!(parsed.query(), query);
            assert_eq!(
                parsed.matches(&labels(with)),
                expected,
                "{query} on {with:?}"
            );
        }
    }

    #[test]
    fn invalid_selectors_are_errors_that_name_the_cause() {
        let long = "a".repeat(100);
        assert!(Selector::parse(Some(&equals(&format!("{long}.io/{}", &long[..63]), ""))).is_ok());
        let longest = format!("{}/a", ["a"; 127].join(".")); // 253 characters and the name
        for key in ["a-1.io/x", "1/A_b.c-2", &long[..63], &longest] {
            assert!(Selector::parse(Some(&equals(key, ""))).is_ok(), "{key}");
        }
        for (selector, error) in [
            (
                equals(&long[..64], "x"),
                SelectorError::Key(long[..64].into()),
            ),
            (
                equals(&format!("{}/a", ["a"; 128].join(".")), "x"),
                SelectorError::Key(["a"; 40].join(".") + "."),
            ),
            (equals("-a.io/b", "x"), SelectorError::Key("-a.io/b".into())),
            (equals("a-.io/b", "x"), SelectorError::Key("a-.io/b".into())),
            (equals("-a", "x"), SelectorError::Key("-a".into())),
            (equals("a.", "x"), SelectorError::Key("a.".into())),
            (equals("a/b/c", "x"), SelectorError::Key("a/b/c".into())),
            (equals("a..b/c", "x"), SelectorError::Key("a..b/c".into())),
            (equals("/c", "x"), SelectorError::Key("/c".into())),
            (equals("a b", "x"), SelectorError::Key("a b".into())),
            (equals("", "x"), SelectorError::Key(String::new())),
            (equals("UP.io/a", "x"), SelectorError::Key("UP.io/a".into())),
            (equals("a", "x,y"), SelectorError::Value("x,y".into())),
            (
                expression("a", "Gt", &["1"]),
                SelectorError::Operator("Gt".into()),
            ),
            (expression("a", "In", &[]), SelectorError::NoValues("In")),
        ] {
            assert_eq!(Selector::parse(Some(&selector)), Err(error));
        }
    }

    #[test]
    fn selectors_on_values_of_one_key_are_united() {
        let parse = |s: &LabelSelector| Selector::parse(Some(s)).unwrap().unwrap();
        let (a, b) = (
            parse(&equals("k", "true")),
            parse(&equals("k", "remote-discovery")),
        );
        assert_eq!(a.union(&b).unwrap().query(), "k in (remote-discovery,true)");
        assert_eq!(a.union(&a), Some(a.clone()));
        assert_eq!(a.union(&parse(&equals("other", "true"))), None);
        let exists = parse(&expression("k", "Exists", &[]));
        assert_eq!(a.union(&exists), None);
        assert_eq!(exists.union(&exists), Some(exists.clone()));
    }
}
