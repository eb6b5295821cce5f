//! Which labels and annotations of a remote Service its mirror gets.

use thiserror::Error;

use super::{policy::Copied, tool_keys};
use crate::{
    api::{k8s::Service, labels as l, map::Map, names::is_label_key, text::short},
    mirror::metadata::desired::DesiredEntries,
};

/// Which labels and annotations of remote Services are copied to their mirrors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclusions {
    labels: KeyRules,
    annotations: KeyRules,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct KeyRules {
    excluded: Vec<KeyRule>,
    /// Keys that are copied although other tools act on them.
    copied: Vec<KeyRule>,
    /// Whether no other keys are copied.
    only_copied: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyRule {
    Key(String),
    /// Ends in `/`, so that `foo.io/*` does not exclude `foo.iox/bar`.
    Prefix(String),
}

/// What is wrong with a rule for keys that are copied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CopiedError {
    /// It cannot match any key.
    #[error("invalid key or prefix {0:?} (use a key, or a prefix such as example.com/*)")]
    NoRule(String),
    /// It matches keys that a service mirror writes.
    #[error("{0:?} is reserved for service mirrors and never copied")]
    Ours(String),
}

impl KeyRule {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.strip_suffix('*') {
            Some(prefix) if prefix.ends_with('/') => Some(Self::Prefix(prefix.to_owned())),
            _ => (!text.is_empty()).then(|| Self::Key(text.to_owned())),
        }
    }

    /// Parses rules. Blank ones are dropped.
    fn parse_all<S: AsRef<str>>(rules: &[S]) -> Vec<Self> {
        let rules = rules.iter();
        rules
            .filter_map(|rule| Self::parse(rule.as_ref()))
            .collect()
    }

    fn matches(&self, key: &str) -> bool {
        match self {
            Self::Key(own) => own == key,
            Self::Prefix(prefix) => key.starts_with(prefix.as_str()),
        }
    }
}

impl KeyRules {
    fn excluded<S: AsRef<str>>(rules: &[S]) -> Self {
        Self {
            excluded: KeyRule::parse_all(rules),
            ..Self::default()
        }
    }

    fn drops(&self, key: &str) -> bool {
        let named = |rules: &[KeyRule]| rules.iter().any(|rule| rule.matches(key));
        l::is_of_service_mirrors(key)
            || named(&self.excluded)
            || ((self.only_copied || tool_keys::find(key).is_some()) && !named(&self.copied))
    }
}

/// Reads rules for keys that are copied, joined by commas. Blank rules are dropped.
pub fn copied_rules(text: &str) -> Result<Vec<&str>, CopiedError> {
    let rules = text.split(',').map(str::trim);
    rules
        .filter(|rule| !rule.is_empty())
        .map(|rule| {
            let key = rule.strip_suffix("/*").map(|prefix| format!("{prefix}/x"));
            if !is_label_key(key.as_deref().unwrap_or(rule)) {
                return Err(CopiedError::NoRule(short(rule)));
            }
            if l::is_of_service_mirrors(rule) {
                return Err(CopiedError::Ours(short(rule)));
            }
            Ok(rule)
        })
        .collect()
}

impl Exclusions {
    /// Parses rules, each a key, or a prefix that ends in `/*`. Blank rules are dropped.
    pub fn new<S: AsRef<str>>(labels: &[S], annotations: &[S]) -> Self {
        Self {
            labels: KeyRules::excluded(labels),
            annotations: KeyRules::excluded(annotations),
        }
    }

    /// Also copies keys that other tools act on, if these rules match them. Excluded keys stay excluded.
    pub(crate) fn copying(mut self, labels: &[&str], annotations: &[&str]) -> Self {
        self.labels.copied = KeyRule::parse_all(labels);
        self.annotations.copied = KeyRule::parse_all(annotations);
        self
    }

    /// Restricts copying to the keys that [`Self::copying`] was given, if the Link asks for that.
    pub(crate) fn only_copied(mut self, which: Copied) -> Self {
        self.labels.only_copied = which == Copied::Listed;
        self.annotations.only_copied = which == Copied::Listed;
        self
    }

    /// The labels that a mirror gets from its remote Service; none if the Service has too much metadata to be copied.
    pub(crate) fn labels_of<'a>(&self, remote: &'a Service) -> DesiredEntries<'a> {
        if remote.is_trimmed {
            DesiredEntries::default()
        } else {
            self.labels(&remote.metadata.labels)
        }
    }

    fn labels<'a>(&self, remote: &'a Map) -> DesiredEntries<'a> {
        DesiredEntries::copy(remote, |key| self.labels.drops(key))
    }

    /// The annotations that a mirror gets from its remote Service.
    pub(crate) fn annotations<'a>(&self, remote: &'a Map) -> DesiredEntries<'a> {
        DesiredEntries::copy(remote, |key| {
            key != l::OPAQUE_PORTS && self.annotations.drops(key)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> Map {
        pairs.iter().copied().collect()
    }

    #[test]
    fn exclusions_drop_exactly_what_they_name() {
        let cases: [(&[&str], &str, bool); 8] = [
            (&["foo.io/*"], "foo.io/a", true),
            (&["foo.io/*"], "foo.iox/a", false),
            (&["foo.io/*"], "foo.io", false),
            (&["foo.io/a"], "foo.io/a", true),
            (&["foo.io/a"], "foo.io/ab", false),
            (&[" foo.io/a "], "foo.io/a", true),
            (&["", "*"], "a", false),
            (&[], "a", false),
        ];
        for (rules, key, dropped) in cases {
            let exclusions = Exclusions::new(rules, rules);
            let from = map(&[(key, "v")]);
            assert_eq!(
                exclusions.labels(&from).to_map().is_empty(),
                dropped,
                "label {key}: {rules:?}"
            );
            assert_eq!(
                exclusions.annotations(&from).to_map().is_empty(),
                dropped,
                "{key}: {rules:?}"
            );
        }
    }

    #[test]
    fn keys_of_other_tools_are_never_copied_by_default() {
        let none = Exclusions::default();
        let annotations = map(&[
            ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
            ("argocd.argoproj.io/tracking-id", "x"),
            ("multicluster.linkerd.io/remote-discovery", "a@b"),
            ("mirror.linkerd.io/remote-gateway-identity", "x"),
            ("service.kubernetes.io/topology-mode", "auto"),
            ("config.linkerd.io/opaque-ports", "1"),
            ("mine", "1"),
        ]);
        let kept = none.annotations(&annotations);
        assert_eq!(
            kept.to_map(),
            map(&[("config.linkerd.io/opaque-ports", "1"), ("mine", "1")])
        );
        let labels = map(&[
            ("mirror.linkerd.io/exported", "true"),
            ("multicluster.linkerd.io/remote-discovery", "b"),
            ("mirror.linkerd.iox/mine", "1"),
        ]);
        assert_eq!(
            none.labels(&labels).to_map(),
            map(&[("mirror.linkerd.iox/mine", "1")])
        );
    }

    #[test]
    fn opaque_ports_survive_an_exclusion() {
        let exclusions = Exclusions::new(&[], &["config.linkerd.io/*"]);
        let from = map(&[(l::OPAQUE_PORTS, "1"), ("config.linkerd.io/other", "1")]);
        assert_eq!(
            exclusions.annotations(&from).to_map(),
            map(&[(l::OPAQUE_PORTS, "1")])
        );
    }

    #[test]
    fn keys_of_other_tools_are_copied_only_if_a_link_allows_it() {
        let keys: Vec<String> = tool_keys::TOOL_KEYS
            .iter()
            .map(|known| format!("{}{}", known.key, if known.is_prefix() { "x" } else { "" }))
            .collect();
        let from: Map = keys.iter().map(|key| (key.as_str(), "v")).collect();
        let none = Exclusions::default();
        assert_eq!(none.labels(&from).to_map(), map(&[]));
        assert_eq!(none.annotations(&from).to_map(), map(&[]));

        let (dns, argo) = ("external-dns.alpha.kubernetes.io/x", "argocd.argoproj.io/x");
        let allowing = |excluded: &[&str]| {
            Exclusions::new(excluded, excluded).copying(
                &["argocd.argoproj.io/*"],
                &["external-dns.alpha.kubernetes.io/x"],
            )
        };
        assert_eq!(allowing(&[]).labels(&from).to_map(), map(&[(argo, "v")]));
        assert_eq!(
            allowing(&[]).annotations(&from).to_map(),
            map(&[(dns, "v")])
        );
        // An exclusion wins.
        let both = allowing(&[argo, "external-dns.alpha.kubernetes.io/*"]);
        assert_eq!(both.labels(&from).to_map(), map(&[]));
        assert_eq!(both.annotations(&from).to_map(), map(&[]));
        // Even if everything is allowed, keys that say what a mirror is are never copied.
        let ours = map(&[(l::CLUSTER_NAME, "x"), (l::REMOTE_DISCOVERY, "x")]);
        let all =
            Exclusions::default().copying(&["mirror.linkerd.io/*"], &["multicluster.linkerd.io/*"]);
        assert_eq!(all.labels(&ours).to_map(), map(&[]));
        assert_eq!(all.annotations(&ours).to_map(), map(&[]));
    }

    #[test]
    fn link_that_copies_only_what_it_lists_copies_nothing_else() {
        let listed = |which| {
            Exclusions::new(&["b"], &["b"])
                .copying(&["app", "b", "argocd.argoproj.io/*"], &["team.io/*"])
                .only_copied(which)
        };
        let labels = map(&[
            ("app", "web"),
            ("argocd.argoproj.io/instance", "x"),
            ("b", "excluded"),
            ("tier", "front"),
            (l::EXPORTED, "true"),
        ]);
        let annotations = map(&[
            (l::OPAQUE_PORTS, "25"),
            ("retry.linkerd.io/http", "5xx"),
            ("team.io/owner", "me"),
        ]);
        let only = listed(Copied::Listed);
        assert_eq!(
            only.labels(&labels).to_map(),
            map(&[("app", "web"), ("argocd.argoproj.io/instance", "x")])
        );
        // Traffic depends on opaque ports.
        assert_eq!(
            only.annotations(&annotations).to_map(),
            map(&[(l::OPAQUE_PORTS, "25"), ("team.io/owner", "me")])
        );
        let all = listed(Copied::All);
        assert_eq!(all.labels(&labels).to_map().len(), 3);
        assert_eq!(all.annotations(&annotations).to_map(), annotations);
    }

    #[test]
    fn copy_rules_match_some_key_but_none_of_service_mirrors() {
        assert_eq!(copied_rules(""), Ok(vec![]));
        let read = copied_rules(" a.io/* ,, b,c.io/d_e");
        assert_eq!(read, Ok(vec!["a.io/*", "b", "c.io/d_e"]));
        for text in [
            "*", "/*", "a*", "a.io/b*", "a.io/", "A.io/*", "a b", "a/b/*", "a.io/*/*", "ä",
        ] {
            let error = CopiedError::NoRule(text.to_owned());
            assert_eq!(copied_rules(text), Err(error), "{text}");
        }
        for text in ["mirror.linkerd.io/*", "multicluster.linkerd.io/x"] {
            let error = CopiedError::Ours(text.to_owned());
            assert_eq!(copied_rules(&format!("a,{text}")), Err(error), "{text}");
        }
    }
}
