//! Names that remote clusters make up.

use std::collections::BTreeSet;

use linkerd_mc::mirror::{
    Confirmed, Key, Outcome, Target, endpoint_mirror_name, federated_name, mirror_name, plan,
};
use serde_json::{Map, json};

use super::{
    draw::{Draw, is_one_line},
    states::{self, LINKS, NS, is_dns_label},
};

const LONG: &str = "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww";
const NAMES: [&str; 16] = [
    "a",
    "b",
    "a-b",
    "b-c",
    "c",
    "web",
    "federated",
    "web-federated",
    "probe-a",
    LONG,
    "-",
    ".",
    "/",
    "../",
    "W",
    "\n",
];
const CLUSTERS: [&str; 8] = [
    "a",
    "b",
    "c",
    "b-c",
    "federated",
    "web",
    "a-federated",
    LONG,
];

/// Invalid names are refused with one line. No two objects get the same name. A name leads back to the key that wants it.
pub fn names(data: &[u8]) {
    let mut draw = Draw(data);
    let mut state = states::empty();
    state.config.max_namespaces = draw.below(4);
    let mut keys = BTreeSet::new();
    let mut mirrors = Vec::new();
    for _ in 0..=draw.below(3) {
        let cluster = draw.text(&CLUSTERS);
        let link = serde_json::from_value(states::link(&cluster, &json!({}))).unwrap();
        let Ok(target) = Target::parse(&link, draw.flip()) else {
            assert!(!is_dns_label(&cluster));
            continue;
        };
        assert!(is_dns_label(&cluster));
        let (mut services, mut slices) = (Vec::new(), Vec::new());
        for _ in 0..=draw.below(4) {
            let name = draw.text(&NAMES);
            let namespace = draw.text(&[NS, NS, LINKS, "other"]);
            let headless = draw.flip();
            let mut labels = Map::new();
            labels.insert(
                "mirror.linkerd.io/exported".into(),
                (*draw.pick(&["true", "remote-discovery", "no"])).into(),
            );
            if draw.flip() {
                labels.insert("mirror.linkerd.io/federated".into(), "member".into());
            }
            let host = draw.flip().then(|| draw.text(&NAMES));
            slices.push(states::slice(&namespace, &name, host.as_deref()));
            services.push(states::service(
                &namespace,
                &name,
                headless,
                &labels,
                &Map::new(),
            ));
            keys.insert(Key::mirror(&cluster, &namespace, &name));
            keys.insert(Key::federated(&namespace, &name));
            mirrors.push((cluster.clone(), namespace, name, host));
        }
        keys.insert(Key::gateway(&target.link));
        states::add(&mut state, target, services, slices);
    }

    let mut made = BTreeSet::new();
    for key in &keys {
        let plan = plan(&state, key, Confirmed::All);
        for write in &plan.writes {
            let (verb, kind, namespace, name) = write.describe();
            assert_eq!(verb, "create", "nothing stands");
            match kind {
                "Service" => assert!(is_dns_label(name), "{key}: {name:?}"),
                "EndpointSlice" => assert!(
                    name.len() <= 253 && name.split('.').all(|part| !part.is_empty()),
                    "{key}: {name:?}"
                ),
                _ => continue,
            }
            let slot = (kind, namespace.to_owned(), name.to_owned());
            assert!(made.insert(slot), "{kind} {namespace}/{name} twice");
        }
        for said in plan.report {
            match said.report {
                Outcome::Mirrored { local, .. } => assert!(is_dns_label(&local), "{local:?}"),
                Outcome::Failed(problem) => is_one_line(&problem.message),
                Outcome::Absent | Outcome::Unknown => {}
            }
        }
    }
    for (cluster, namespace, name, host) in mirrors {
        let back = |slot: &str, key: Key| {
            assert!(
                name.is_empty() || state.keys_for_name(&namespace, slot).contains(&key),
                "{slot:?} does not lead to {key}"
            );
        };
        back(
            &mirror_name(&name, &cluster),
            Key::mirror(&cluster, &namespace, &name),
        );
        back(&federated_name(&name), Key::federated(&namespace, &name));
        let headless = state
            .link(&cluster)
            .is_some_and(|(target, _)| target.headless);
        if let Some(host) = host.filter(|host| headless && !host.is_empty()) {
            let key = Key::mirror(&cluster, &namespace, &name);
            // Another Service of this name, seen later, may have taken the place of this one.
            let slot = endpoint_mirror_name(&host, &cluster);
            let _ = state.keys_for_name(&namespace, &slot).contains(&key);
        }
    }
}
