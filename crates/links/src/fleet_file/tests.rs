//! Properties of how entries become links, for any entries.

use std::collections::{BTreeMap, BTreeSet};

use manifests::link::ClusterName;
use proptest::prelude::*;

use crate::fleet_file::{
    expand::{LinkRule, SettingLevel, expand},
    types::{FlagValue, LinkEnds, Place},
};

const KEYS: [&str; 2] = ["copy", "federation"];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn value(key: &'static str, value: u8, place: Place) -> FlagValue {
    FlagValue {
        key,
        text: value.to_string(),
        place,
    }
}

/// The settings of one entry: at most one value for each key.
fn settings() -> impl Strategy<Value = Vec<(&'static str, u8)>> {
    prop::collection::btree_map(prop::sample::select(&KEYS[..]), 0_u8..2, 0..=2)
        .prop_map(|settings| settings.into_iter().collect())
}

/// Entries at lines from 10 on: single links, and several.
fn rules() -> impl Strategy<Value = Vec<LinkRule>> {
    let name = || prop::sample::select(&NAMES[..]);
    let ends = (name(), name()).prop_filter("of two clusters", |(source, target)| source != target);
    let several = prop::collection::vec(ends.clone(), 0..6);
    let kind = prop_oneof![
        ends.prop_map(|ends| (SettingLevel::Single, vec![ends])),
        several.prop_map(|ends| (SettingLevel::Several, ends)),
    ];
    let rule = (kind, settings());
    prop::collection::vec(rule, 0..6).prop_map(|rules| {
        let rules = rules.into_iter().zip(10..);
        let rules = rules.map(|(((level, ends), settings), line)| {
            let part = if level == SettingLevel::Single {
                "link"
            } else {
                "mesh"
            };
            let place = Place { part, line };
            let name = |name: &str| name.parse::<ClusterName>().unwrap();
            let ends = ends.into_iter().map(|(source, target)| LinkEnds {
                source: name(source),
                target: name(target),
            });
            LinkRule {
                place,
                level,
                ends: ends.collect(),
                settings: settings
                    .into_iter()
                    .map(|(key, set)| value(key, set, place))
                    .collect(),
            }
        });
        rules.collect()
    })
}

/// The values that the most specific entries have for a key of a link.
fn top<'r>(rules: &'r [LinkRule], ends: &LinkEnds, key: &str) -> BTreeSet<&'r str> {
    let own = || rules.iter().filter(|rule| rule.ends.contains(ends));
    let set = |level| {
        let own = own().filter(move |rule| rule.level == level);
        let values = own.flat_map(|rule| &rule.settings);
        let values = values.filter(|value| value.key == key);
        values.map(FlagValue::shown).collect()
    };
    let single: BTreeSet<&str> = set(SettingLevel::Single);
    if single.is_empty() {
        set(SettingLevel::Several)
    } else {
        single
    }
}

proptest! {
    #[test]
    fn each_setting_is_that_of_the_most_special_place(
        rules in rules(),
        defaults in settings(),
        shuffle in any::<prop::sample::Index>(),
    ) {
        let place = Place { part: "defaults", line: 1 };
        let defaults: Vec<FlagValue> = defaults.iter().map(|(key, set)| value(key, *set, place)).collect();
        let named: BTreeSet<&LinkEnds> = rules.iter().flat_map(|rule| &rule.ends).collect();
        let Ok(links) = expand("fleet.yaml", &defaults, &rules) else {
            // Two of the most specific entries contradict each other.
            let mut all = named.iter().flat_map(|ends| KEYS.map(|key| top(&rules, ends, key)));
            prop_assert!(all.any(|values| values.len() > 1));
            return Ok(());
        };
        prop_assert_eq!(links.keys().collect::<BTreeSet<_>>(), named);
        for (ends, link) in &links {
            for key in KEYS {
                let default = defaults.iter().find(|value| value.key == key);
                let mut wanted = top(&rules, ends, key);
                if wanted.is_empty() {
                    wanted.extend(default.map(FlagValue::shown));
                }
                let set = link.settings.get(key).map(FlagValue::shown);
                prop_assert_eq!(wanted, set.into_iter().collect::<BTreeSet<_>>());
            }
        }
        // The order of the entries decides nothing.
        let mut rotated = rules.clone();
        if !rotated.is_empty() {
            rotated.rotate_left(shuffle.index(rules.len()));
            rotated.reverse();
        }
        let again = expand("fleet.yaml", &defaults, &rotated).ok();
        let words = |links: &BTreeMap<LinkEnds, crate::fleet_file::FleetLink>| {
            let settings = links.values().map(|link| link.settings.values().map(|value| value.text.clone()).collect::<Vec<_>>());
            settings.collect::<Vec<_>>()
        };
        prop_assert_eq!(again.as_ref().map(words), Some(words(&links)));
    }
}
