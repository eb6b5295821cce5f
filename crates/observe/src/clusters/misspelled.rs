//! What looks misspelled, because it selects nothing and is close to something that exists: a label of a Service, the
//! selector of a Link, or a cluster in a preference.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{Api, Client, api::ListParams};

use client::ReadError;
use hints::prose::counted;
use mirror_core::api::{
    labels::{EXPORTED, FEDERATED, MIRRORED_SERVICE},
    link::Link,
    metadata::ResourceId,
    preference::linked_clusters,
    selector::Selector,
};

/// A label: its key and its value.
type Label = (String, String);

/// Labels of Services in a target cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceLabels {
    /// The labels of each Service that was looked at.
    pub services: BTreeMap<ResourceId, BTreeMap<String, String>>,
    /// Whether these are all Services that are no mirrors.
    pub are_all: bool,
}

/// Something that selects nothing, and what was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misspelled {
    /// A label of a Service.
    Label {
        /// The Service.
        service: ResourceId,
        /// The label that it has.
        found: Label,
        /// The label that it should have.
        meant: Label,
    },
    /// The selector of a Link.
    Selector {
        /// Its field in the Link.
        field: &'static str,
        /// What it selects.
        found: Label,
        /// What it should select.
        meant: Label,
        /// The number of Services that have the label.
        services: usize,
    },
}

/// Maximum number of Services of one list that are looked at.
const MOST: u32 = 500;

/// The labels that usually export a Service.
const USUAL: [(&str, &str); 3] = [
    (EXPORTED, "true"),
    (EXPORTED, "remote-discovery"),
    (FEDERATED, "member"),
];

impl fmt::Display for Misspelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = |(key, value): &Label| format!("{key}={value}");
        match self {
            Self::Label {
                service,
                found,
                meant,
            } => write!(
                f,
                "the Service {service} is not exported: no selector of the Link matches its label {}; did you mean {}?",
                label(found),
                label(meant)
            ),
            Self::Selector {
                field,
                found,
                meant,
                services,
            } => write!(
                f,
                "the {field} of the Link, {}, matches no Service, but {} {} {}; did you mean that?",
                label(found),
                counted(*services, "Service"),
                if *services == 1 { "has" } else { "have" },
                label(meant)
            ),
        }
    }
}

/// The labels of the first Services of a cluster, and of those with other values of the usual labels.
pub async fn service_labels(client: &Client) -> Result<ServiceLabels, ReadError> {
    let api: Api<Service> = Api::all(client.clone());
    let list = async |selector: &str| {
        let first = ListParams::default().labels(selector).limit(MOST);
        api.list_metadata(&first).await
    };
    let first = list(&format!("!{MIRRORED_SERVICE}")).await?;
    let are_all = first.metadata.continue_.is_none_or(|more| more.is_empty());
    let mut found = first.items;
    if !are_all {
        for unusual in [
            format!("{EXPORTED},{EXPORTED} notin (true,remote-discovery)"),
            format!("{FEDERATED},{FEDERATED} notin (member)"),
        ] {
            found.extend(list(&unusual).await?.items);
        }
    }
    let labels = found.into_iter().map(|service| {
        let id = ResourceId::of(&service);
        (id, service.metadata.labels.unwrap_or_default())
    });
    Ok(ServiceLabels {
        services: labels.collect(),
        are_all,
    })
}

/// What looks misspelled in a Link, and in the labels of Services in its target cluster.
pub fn misspelled(link: &Link, labels: &ServiceLabels) -> Vec<Misspelled> {
    let spec = &link.spec;
    let fields = [
        ("selector", &spec.selector),
        ("remoteDiscoverySelector", &spec.remote_discovery_selector),
        ("federatedServiceSelector", &spec.federated_service_selector),
    ];
    let parsed = |selector: &Option<LabelSelector>| Selector::parse(selector.as_ref()).ok()?;
    let selectors: Vec<Selector> = fields.iter().filter_map(|(_, s)| parsed(s)).collect();
    let is_selected = |labels: &BTreeMap<String, String>| {
        let of = |key: &str| labels.get(key).map(String::as_str);
        selectors.iter().any(|selector| selector.selects(of))
    };
    let unselected = labels.services.iter();
    let unselected: BTreeMap<_, _> = unselected.filter(|(_, own)| !is_selected(own)).collect();

    let candidates = USUAL.into_iter().filter(|(key, value)| {
        let only = |asked: &str| (asked == *key).then_some(*value);
        selectors.iter().any(|selector| selector.selects(only))
    });
    let candidates: Vec<_> = candidates.collect();
    let of_services = unselected.iter().filter_map(|(&service, own)| {
        let (found, meant) = own
            .iter()
            .find_map(|(key, value)| Some(((key, value), meant_label(&candidates, key, value)?)))?;
        Some(Misspelled::Label {
            service: service.clone(),
            found: (found.0.clone(), found.1.clone()),
            meant: owned(meant),
        })
    });
    let mut all: Vec<Misspelled> = of_services.collect();
    for (field, selector) in fields.iter().filter(|_| labels.are_all) {
        let selects_some = parsed(selector).is_none_or(|selector| {
            let mut services = labels.services.values();
            services.any(|own| selector.selects(|key| own.get(key).map(String::as_str)))
        });
        let only = selector.as_ref().and_then(only_label);
        if let Some(found) = only.filter(|_| !selects_some)
            && let Some((meant, services)) = near(&found, unselected.values().copied())
        {
            all.push(Misspelled::Selector {
                field,
                found,
                meant,
                services,
            });
        }
    }
    all
}

/// The label that somebody meant who wrote this one.
fn meant_label<'c>(
    candidates: &[(&'c str, &'c str)],
    key: &str,
    value: &str,
) -> Option<(&'c str, &'c str)> {
    let lower = value.to_ascii_lowercase().replace('_', "-");
    let is_yes = ["true", "yes", "y", "on", "1", "enabled"].contains(&lower.as_str());
    let is_value = |known: &str| {
        lower == known || is_yes && known != "remote-discovery" || is_close(&lower, known)
    };
    let near = candidates.iter().filter(|&&(known_key, known)| {
        (known_key, known) != (key, value)
            && (key == known_key || is_near_key(key, known_key))
            && is_value(known)
    });
    let distance = |&&(known_key, known): &&(&str, &str)| {
        strsim::damerau_levenshtein(key, known_key) + strsim::damerau_levenshtein(&lower, known)
    };
    near.min_by_key(distance).copied()
}

/// Whether somebody may have meant this key of Linkerd's and wrote another, or another of Linkerd's prefixes.
fn is_near_key(typed: &str, known: &str) -> bool {
    let name = |key: &str| key.rsplit_once('/').map(|(_, name)| name.to_owned());
    let of_linkerd = typed
        .split('/')
        .next()
        .is_some_and(|p| p.ends_with("linkerd.io"));
    is_close(typed, known) || typed != known && of_linkerd && name(typed) == name(known)
}

/// The only label that a selector wants, unless it is a usual one.
fn only_label(selector: &LabelSelector) -> Option<Label> {
    let labels = selector.match_labels.iter().flatten();
    let labels = labels.map(|(key, value)| Some((key.clone(), value.clone())));
    let expressions = selector.match_expressions.iter().flatten();
    let expressions = expressions.map(|wanted| match wanted.values.as_deref() {
        Some([value]) if wanted.operator == "In" => Some((wanted.key.clone(), value.clone())),
        _ => None,
    });
    let mut all = labels.chain(expressions);
    let (Some(Some(only)), None) = (all.next(), all.next()) else {
        return None;
    };
    let is_usual = USUAL.contains(&(&only.0, &only.1));
    (!is_usual).then_some(only)
}

/// The label of Services that is close to this one, and how many have it; of several, the one that most have.
fn near<'l>(
    (key, value): &Label,
    services: impl Iterator<Item = &'l BTreeMap<String, String>>,
) -> Option<(Label, usize)> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (own_key, own) in services.flatten() {
        let is_near = own_key == key && is_one_edit_away(own, value)
            || own == value && is_near_key(key, own_key);
        if is_near {
            *counts.entry((own_key, own)).or_default() += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(label, count)| (owned(label), count))
}

fn owned((key, value): (&str, &str)) -> Label {
    (key.to_owned(), value.to_owned())
}

/// Whether one text is probably the other with a typo. Names such as `prod-1` and `prod-2`, or `team-a` and `team-b`, are
/// not.
fn is_close(a: &str, b: &str) -> bool {
    let most = if a.len().min(b.len()) < 6 { 1 } else { 2 };
    is_within(a, b, most)
}

/// The same for names that people choose: `here-direct` and `bare-direct`, or `east` and `west`, may both be meant.
fn is_one_edit_away(a: &str, b: &str) -> bool {
    is_within(a, b, 1)
}

fn is_within(a: &str, b: &str, most: usize) -> bool {
    let (a, b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
    let parts = |text: &str| -> Vec<String> {
        text.split(['-', '_', '.', '/'])
            .map(str::to_owned)
            .collect()
    };
    let is_word = |part: &str| part.len() > 2 && part.chars().all(|c| c.is_ascii_alphabetic());
    let (of_a, of_b) = (parts(&a), parts(&b));
    let mut differences = of_a.iter().zip(&of_b).filter(|(a, b)| a != b);
    let are_words = of_a.len() != of_b.len() || differences.all(|(a, b)| is_word(a) && is_word(b));
    a != b && are_words && strsim::damerau_levenshtein(&a, &b) <= most
}

/// Clusters of a preference that have no Link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlinked {
    /// What is wrong, after the name of the Service.
    pub text: String,
    /// The preference that was meant, if the names are probably misspelled.
    pub meant: Option<String>,
}

/// Which clusters of a preference have no Link, and what was meant; `None` if all have one.
pub fn unlinked(preference: &str, linked: &BTreeSet<&str>) -> Option<Unlinked> {
    let unknown = linked_clusters(preference).filter(|cluster| !linked.contains(cluster));
    let unknown: Vec<&str> = unknown.collect();
    if unknown.is_empty() {
        return None;
    }
    let similar = |name: &str| linked.iter().find(|known| is_one_edit_away(name, known));
    let corrected = |item: &str| {
        let (name, weight) = item.split_once('=').unzip();
        let name = name.unwrap_or(item).trim();
        let name = if unknown.contains(&name) {
            similar(name)?
        } else {
            name
        };
        Some(weight.map_or_else(|| name.to_owned(), |weight| format!("{name}={weight}")))
    };
    let meant = preference
        .split(',')
        .map(corrected)
        .collect::<Option<Vec<_>>>();
    let meant = meant.map(|items| items.join(","));
    let linked: Vec<&str> = linked.iter().copied().collect();
    let known = match linked.as_slice() {
        [] => String::new(),
        linked => format!(" (linked: {})", linked.join(", ")),
    };
    let question = meant.as_ref();
    let question = question.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    let have = if unknown.len() == 1 { "has" } else { "have" };
    let unknown = unknown.join(" and ");
    Some(Unlinked {
        text: format!("prefers {unknown}, which {have} no Link{known}{question}"),
        meant,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The labels of `shop/web`, which is the only Service.
    pub fn labelled(key: &str, value: &str) -> ServiceLabels {
        of(&[("web", key, value)])
    }

    fn of(services: &[(&str, &str, &str)]) -> ServiceLabels {
        let services = services.iter().map(|(name, key, value)| {
            let labels = BTreeMap::from([(key.to_string(), value.to_string())]);
            (ResourceId::new("shop", *name), labels)
        });
        ServiceLabels {
            services: services.collect(),
            are_all: true,
        }
    }

    fn link_with(selector: &Value) -> Link {
        serde_json::from_value(json!({
            "apiVersion": "multicluster.linkerd.io/v1alpha3",
            "kind": "Link",
            "metadata": { "name": "east" },
            "spec": {
                "targetClusterName": "east",
                "selector": selector,
                "remoteDiscoverySelector": { "matchLabels": { "mirror.linkerd.io/exported": "remote-discovery" } },
                "federatedServiceSelector": { "matchLabels": { "mirror.linkerd.io/federated": "member" } },
            },
        }))
        .unwrap()
    }

    fn said(link: &Link, labels: &ServiceLabels) -> Vec<String> {
        let found = misspelled(link, labels);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn labels_that_select_nothing_are_reported_if_they_look_like_a_mistake() {
        let link = link_with(&json!({ "matchLabels": { EXPORTED: "true" } }));
        for (key, value, meant) in [
            (EXPORTED, "True", "exported=true?"),
            (EXPORTED, "yes", "exported=true?"),
            (EXPORTED, "ture", "exported=true?"),
            (EXPORTED, "tru", "exported=true?"),
            (EXPORTED, "Remote_Discovery", "exported=remote-discovery?"),
            (EXPORTED, "remote-discvery", "exported=remote-discovery?"),
            (EXPORTED, "remotediscovery", "exported=remote-discovery?"),
            (
                "mirror.linkerd.io/exportd",
                "true",
                "mirror.linkerd.io/exported=true?",
            ),
            (
                "mirror.linkerd.io/export",
                "true",
                "mirror.linkerd.io/exported=true?",
            ),
            (
                "miror.linkerd.io/exported",
                "ture",
                "mirror.linkerd.io/exported=true?",
            ),
            (
                "multicluster.linkerd.io/exported",
                "true",
                "mirror.linkerd.io/exported=true?",
            ),
            (
                "mirror.linkerd.io/exportd",
                "remote-discovery",
                "exported=remote-discovery?",
            ),
            (FEDERATED, "true", "federated=member?"),
            (FEDERATED, "Member", "federated=member?"),
            (FEDERATED, "memeber", "federated=member?"),
            (
                "mirror.linkerd.io/federate",
                "member",
                "mirror.linkerd.io/federated=member?",
            ),
            (EXPORTED, "true", ""),
            (EXPORTED, "remote-discovery", ""),
            (FEDERATED, "member", ""),
            // For other Links, or off.
            (EXPORTED, "team-b", ""),
            (EXPORTED, "false", ""),
            ("mirror.linkerd.io/exportd", "false", ""),
            ("example.org/exported", "true", ""),
            ("app", "true", ""),
        ] {
            let said = said(&link, &labelled(key, value));
            assert_eq!(said.is_empty(), meant.is_empty(), "{key}={value}: {said:?}");
            if let [said] = said.as_slice() {
                assert!(said.ends_with(meant), "{said}");
                assert!(said.contains(&format!("{key}={value}")), "{said}");
            }
        }
        // A label that this Link does not want either is not what was meant.
        let other = link_with(&json!({ "matchLabels": { "team": "shop" } }));
        assert_eq!(said(&other, &labelled(EXPORTED, "ture")), [""; 0]);
    }

    #[test]
    fn selectors_that_match_nothing_are_reported_if_services_have_a_similar_label() {
        let services = of(&[
            ("db", EXPORTED, "true"),
            ("web", EXPORTED, "true"),
            ("cart", "team", "shop"),
            ("old", "team", "team-a"),
            ("new", "team", "east"),
        ]);
        let label = |key: &str, value: &str| json!({ "matchLabels": { key: value } });
        let within = |key: &str, value: &str| json!({ "matchExpressions": [{ "key": key, "operator": "In", "values": [value] }] });
        for (selector, expected) in [
            (
                within("mirror.linkerd.io/exportd", "true"),
                "2 Services have mirror.linkerd.io/exported=true;",
            ),
            (
                label(EXPORTED, "ture"),
                "2 Services have mirror.linkerd.io/exported=true;",
            ),
            (label("team", "shpo"), "1 Service has team=shop;"),
            // Nothing is similar, or it is the name of another.
            (label("team", "team-b"), ""),
            (label("team", "west"), ""),
            (label("app", "web"), ""),
            (label("team", "shop"), ""),
            (
                json!({ "matchLabels": { "team": "shpo", "tier": "front" } }),
                "",
            ),
        ] {
            let said = said(&link_with(&selector), &services);
            assert_eq!(said.is_empty(), expected.is_empty(), "{selector}: {said:?}");
            assert!(said.iter().all(|said| said.contains(expected)), "{said:?}");
        }
        // The Services that were not looked at may be selected.
        let some = ServiceLabels {
            are_all: false,
            ..services
        };
        assert_eq!(said(&link_with(&label(EXPORTED, "ture")), &some), [""; 0]);
    }

    #[test]
    fn misspelled_clusters_of_a_preference_are_corrected() {
        let linked = BTreeSet::from(["east", "north"]);
        for (preference, text, meant) in [
            (
                "eest,local",
                "prefers eest, which has no Link (linked: east, north); did you mean east,local?",
                Some("east,local"),
            ),
            (
                "nroth=20,local=80",
                "prefers nroth, which has no Link (linked: east, north); did you mean north=20,local=80?",
                Some("north=20,local=80"),
            ),
            (
                "south,eest",
                "prefers south and eest, which have no Link (linked: east, north)",
                None,
            ),
        ] {
            let found = unlinked(preference, &linked).unwrap();
            assert_eq!(found.text, text);
            assert_eq!(found.meant.as_deref(), meant);
        }
        assert_eq!(unlinked("east,local", &linked), None);
    }
}
