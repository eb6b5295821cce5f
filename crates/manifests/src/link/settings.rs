//! The settings of a Link, each of them once: what writes, compares, keeps, imports and describes them are loops over this
//! table. Their flags are [`LinkOptions`], and the keys of a fleet's file have the same names in camelCase.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use mirror_core::{
    api::{
        labels,
        link::{Link, LinkSpec},
        selector::Selector,
        selector_text::parse_selector,
    },
    mirror::{Copied, FederatedThrough, Federation},
};
use serde_json::{Value, json};

use super::options::{
    ANY, COPIES, Choices, FEDERATION, LinkOptions, THROUGH, allowed, copied, gateway_network, keys,
};

/// A setting of a Link.
pub struct Setting {
    /// Its name: the key in a fleet's file, and the flag in camelCase.
    pub key: &'static str,
    /// Where a Link has it, and how the flag sets it.
    pub place: SettingPlace,
    /// Whether it means nothing for a Link without a gateway.
    pub needs_gateway: bool,
    /// Sets it in the flags from a text, by the rule of its flag. The error is the rule.
    pub parse: fn(&mut LinkOptions, &str) -> Result<(), String>,
}

/// Where a Link has a setting.
pub enum SettingPlace {
    /// In the field of the spec that has its name: a selector.
    Selector {
        of: fn(&LinkSpec) -> &Option<LabelSelector>,
        of_mut: fn(&mut LinkSpec) -> &mut Option<LabelSelector>,
        given: fn(&LinkOptions) -> &LabelSelector,
    },
    /// In the field of the spec that has its name: keys of labels or annotations.
    Keys {
        of: fn(&LinkSpec) -> &Vec<String>,
        of_mut: fn(&mut LinkSpec) -> &mut Vec<String>,
        given: fn(&LinkOptions) -> &Vec<String>,
    },
    /// In an annotation. `None` is the default, for which a Link has no annotation.
    Annotation {
        key: &'static str,
        given: fn(&LinkOptions) -> Option<String>,
        /// What a file has for the value of the annotation.
        in_file: fn(&str) -> Value,
    },
}

/// A field of the spec that has the same name as the option.
macro_rules! field {
    ($place:ident, $field:ident) => {
        SettingPlace::$place {
            of: |spec| &spec.$field,
            of_mut: |spec| &mut spec.$field,
            given: |options| &options.$field,
        }
    };
}

/// A setting whose flag is the field of this name, and has this parser.
macro_rules! setting {
    ($key:literal, $field:ident, $parser:expr, $place:expr) => {
        Setting {
            key: $key,
            place: $place,
            needs_gateway: false,
            parse: |options, text| {
                options.$field = $parser(text)?;
                Ok(())
            },
        }
    };
}

impl Setting {
    const fn of_gateway(self) -> Self {
        Self {
            needs_gateway: true,
            ..self
        }
    }
}

const fn text(key: &'static str, given: fn(&LinkOptions) -> Option<String>) -> SettingPlace {
    SettingPlace::Annotation {
        key,
        given,
        in_file: |text| json!(text),
    }
}

const fn list(key: &'static str, given: fn(&LinkOptions) -> Option<String>) -> SettingPlace {
    SettingPlace::Annotation {
        key,
        given,
        in_file: list_in_file,
    }
}

/// What a file has for a text with commas: a list.
pub fn list_in_file(text: &str) -> Value {
    let items = text.split(',').map(str::trim);
    json!(items.filter(|item| !item.is_empty()).collect::<Vec<_>>())
}

/// All settings.
pub const SETTINGS: [Setting; 13] = [
    setting!("selector", selector, selector, field!(Selector, selector)).of_gateway(),
    setting!(
        "remoteDiscoverySelector",
        remote_discovery_selector,
        selector,
        field!(Selector, remote_discovery_selector)
    ),
    setting!(
        "federatedServiceSelector",
        federated_service_selector,
        selector,
        field!(Selector, federated_service_selector)
    ),
    setting!(
        "excludedAnnotations",
        excluded_annotations,
        each(keys),
        field!(Keys, excluded_annotations)
    ),
    setting!(
        "excludedLabels",
        excluded_labels,
        each(keys),
        field!(Keys, excluded_labels)
    ),
    setting!(
        "copiedAnnotations",
        copied_annotations,
        each(copied),
        list(labels::COPIED_ANNOTATIONS, |options| {
            joined(&options.copied_annotations)
        })
    ),
    setting!(
        "copiedLabels",
        copied_labels,
        each(copied),
        list(labels::COPIED_LABELS, |options| {
            joined(&options.copied_labels)
        })
    ),
    setting!(
        "copy",
        copy,
        choice(COPIES, Copied::as_str),
        text(labels::COPY, |options| {
            let set = options.copy;
            (set != Copied::default()).then(|| set.as_str().to_owned())
        })
    ),
    setting!(
        "gatewayNetworks",
        gateway_networks,
        each(gateway_network),
        list(labels::GATEWAY_NETWORKS, |options| {
            joined(&options.gateway_networks)
        })
    )
    .of_gateway(),
    setting!(
        "enableHeadlessServices",
        enable_headless_services,
        switch,
        SettingPlace::Annotation {
            key: labels::HEADLESS_SERVICES,
            given: |options| {
                let set = options.enable_headless_services?;
                Some(if set { ENABLED } else { "disabled" }.to_owned())
            },
            in_file: |text| json!(text == ENABLED),
        }
    ),
    setting!(
        "allowedNamespaces",
        allowed_namespaces,
        namespaces,
        text(labels::ALLOWED_NAMESPACES, |options| {
            options.allowed_namespaces.clone().filter(|set| set != ANY)
        })
    ),
    setting!(
        "federation",
        federation,
        choice(FEDERATION, Federation::as_str),
        text(labels::FEDERATION, |options| {
            let set = options.federation;
            (set != Federation::default()).then(|| set.as_str().to_owned())
        })
    ),
    setting!(
        "federatedThrough",
        federated_through,
        choice(THROUGH, FederatedThrough::as_str),
        text(labels::FEDERATED_THROUGH, |options| {
            let set = options.federated_through;
            (set != FederatedThrough::default()).then(|| set.as_str().to_owned())
        })
    )
    .of_gateway(),
];

fn selector(text: &str) -> Result<LabelSelector, String> {
    parse_selector(text).map_err(|error| error.to_string())
}

/// A parser of comma-separated items with that of one.
fn each<E: ToString>(
    one: fn(&str) -> Result<String, E>,
) -> impl Fn(&str) -> Result<Vec<String>, String> {
    move |text| {
        let items = text.split(',').map(one);
        items
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())
    }
}

fn choice<T: Copy>(
    choices: Choices<T>,
    name: fn(T) -> &'static str,
) -> impl Fn(&str) -> Result<T, String> {
    move |text| {
        let found = choices.iter().map(|(value, _)| *value);
        let mut found = found.filter(|value| name(*value) == text);
        let names = choices.iter().map(|(value, _)| name(*value));
        let rule = || format!("must be one of {}", names.collect::<Vec<_>>().join(", "));
        found.next().ok_or_else(rule)
    }
}

fn switch(text: &str) -> Result<Option<bool>, String> {
    let parsed = text.parse().map(Some);
    parsed.map_err(|_| "must be true or false".to_owned())
}

fn namespaces(text: &str) -> Result<Option<String>, String> {
    let parsed = allowed(text).map(Some);
    parsed.map_err(|error| error.to_string())
}

const ENABLED: &str = "enabled";

/// The items of a flag, comma-separated. A user passes an empty one, or `any`, for none.
fn joined(items: &[String]) -> Option<String> {
    let items = items.iter().map(String::as_str);
    let items = items.filter(|item| !["", ANY].contains(item));
    let joined = items.collect::<Vec<_>>().join(",");
    (!joined.is_empty()).then_some(joined)
}

impl Setting {
    /// The identifier of its flag: its name in `snake_case`.
    pub fn flag(&self) -> String {
        in_words(self.key, '_')
    }

    /// The annotation that has it, if it is not in the spec.
    pub const fn annotation(&self) -> Option<&'static str> {
        match self.place {
            SettingPlace::Annotation { key, .. } => Some(key),
            SettingPlace::Selector { .. } | SettingPlace::Keys { .. } => None,
        }
    }

    /// Sets it in a Link, as the flags say.
    pub fn set(&self, link: &mut Link, options: &LinkOptions) {
        match &self.place {
            SettingPlace::Selector { of_mut, given, .. } => {
                *of_mut(&mut link.spec) = Some(given(options).clone());
            }
            SettingPlace::Keys { of_mut, given, .. } => {
                // A user passes an empty one for none.
                let keys = given(options).iter().filter(|key| !key.is_empty());
                *of_mut(&mut link.spec) = keys.cloned().collect();
            }
            SettingPlace::Annotation { key, given, .. } => annotate(link, key, given(options)),
        }
    }

    /// Sets it as another Link has it.
    pub fn keep(&self, link: &mut Link, old: &Link) {
        match &self.place {
            SettingPlace::Selector { of, of_mut, .. } => {
                of_mut(&mut link.spec).clone_from(of(&old.spec));
            }
            SettingPlace::Keys { of, of_mut, .. } => {
                of_mut(&mut link.spec).clone_from(of(&old.spec));
            }
            SettingPlace::Annotation { key, .. } => {
                annotate(link, key, old.annotations().get(*key).cloned());
            }
        }
    }

    /// Removes it.
    pub fn remove(&self, link: &mut Link) {
        match &self.place {
            SettingPlace::Selector { of_mut, .. } => *of_mut(&mut link.spec) = None,
            SettingPlace::Keys { of_mut, .. } => of_mut(&mut link.spec).clear(),
            SettingPlace::Annotation { key, .. } => annotate(link, key, None),
        }
    }

    /// What a fleet's file has for it; `None` if the Link has the default.
    pub fn in_file(&self, link: &Link, defaults: &LinkOptions) -> Option<Value> {
        match &self.place {
            SettingPlace::Selector { of, given, .. } => {
                let set = of(&link.spec).as_ref();
                let is_default = query(set) == query(Some(given(defaults)));
                (!is_default).then(|| json!(typed(set)))
            }
            SettingPlace::Keys { of, .. } => {
                let keys = of(&link.spec);
                (!keys.is_empty()).then(|| json!(keys))
            }
            SettingPlace::Annotation { key, in_file, .. } => {
                link.annotations().get(*key).map(|text| in_file(text))
            }
        }
    }
}

/// A name in camelCase as words with a separator: `api-server-address` for `apiServerAddress`.
pub fn in_words(name: &str, separator: char) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            words.push(separator);
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}

fn annotate(link: &mut Link, key: &str, value: Option<String>) {
    let annotations = link.annotations_mut();
    match value {
        Some(value) => annotations.insert(key.to_owned(), value),
        None => annotations.remove(key),
    };
}

/// What a selector selects, however it is written.
fn query(selector: Option<&LabelSelector>) -> Option<String> {
    match Selector::parse(selector) {
        Ok(selector) => selector.map(|selector| selector.query()),
        Err(error) => Some(error.to_string()),
    }
}

/// A selector as people type it.
fn typed(selector: Option<&LabelSelector>) -> String {
    let selector = selector.cloned().unwrap_or_default();
    let labels = selector.match_labels.unwrap_or_default();
    let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
    let others = selector.match_expressions.unwrap_or_default();
    let others = others.iter().map(|other| {
        let (key, values) = (
            &other.key,
            other.values.clone().unwrap_or_default().join(","),
        );
        match other.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        }
    });
    labels.chain(others).collect::<Vec<_>>().join(",")
}
