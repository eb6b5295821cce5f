//! From the entries of `links` to directed links. Each setting comes from the most specific place that has it.

use std::collections::BTreeMap;

use hints::hint::fail;

use crate::fleet_file::types::{FlagValue, FleetLink, LinkEnds, Place};

/// How specific a place is: a setting of a single link overrides one of several links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingLevel {
    /// A mesh, a hub or groups.
    Several,
    Single,
}

/// An entry of `links`.
#[derive(Clone, Debug)]
pub struct LinkRule {
    pub place: Place,
    pub level: SettingLevel,
    /// The links that it names.
    pub ends: Vec<LinkEnds>,
    pub settings: Vec<FlagValue>,
}

/// The links of all entries. Fails if places that are equally specific give one setting of a link different values.
pub fn expand(
    file: &str,
    defaults: &[FlagValue],
    rules: &[LinkRule],
) -> anyhow::Result<BTreeMap<LinkEnds, FleetLink>> {
    let mut links: BTreeMap<LinkEnds, FleetLink> = BTreeMap::new();
    let mut said: BTreeMap<(&LinkEnds, &str), Vec<(SettingLevel, &FlagValue)>> = BTreeMap::new();
    for rule in rules {
        for ends in &rule.ends {
            let link = links.entry(ends.clone()).or_default();
            link.places.push(rule.place);
            for value in &rule.settings {
                let all = said.entry((ends, value.key)).or_default();
                all.push((rule.level, value));
            }
        }
    }
    for ((ends, _), all) in said {
        let top = all.iter().map(|(level, _)| *level).max();
        let mut deciding = all.iter().filter(|(level, _)| Some(*level) == top);
        let Some((_, first)) = deciding.next() else {
            continue; // each has one
        };
        if let Some((_, other)) = deciding.find(|(_, other)| other.text != first.text) {
            return Err(contradiction(file, ends, first, other));
        }
        let link = links.entry(ends.clone()).or_default();
        link.settings.insert(first.key, (*first).clone());
    }
    for link in links.values_mut() {
        for value in defaults {
            let setting = link.settings.entry(value.key);
            setting.or_insert_with(|| value.clone());
        }
    }
    Ok(links)
}

fn contradiction(file: &str, ends: &LinkEnds, one: &FlagValue, other: &FlagValue) -> anyhow::Error {
    let key = one.key;
    let single = one.place.part == "link";
    fail(
        format!(
            "{ends} has two values of {key} in {file}: {} ({}) and {} ({})",
            one.shown(),
            one.place,
            other.shown(),
            other.place
        ),
        if single {
            "remove one of them".to_owned()
        } else {
            format!(
                "remove one of them, or set {key} for the link alone, with target: {} and source: {}",
                ends.target, ends.source
            )
        },
    )
}
