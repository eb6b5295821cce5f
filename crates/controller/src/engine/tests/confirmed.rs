//! What the answers of target clusters confirm.

use mirror_core::mirror::Target;
use serde_json::json;

use super::*;

#[tokio::test]
async fn answer_is_judged_by_the_rule_of_the_plan() {
    let mut engine = engine();
    let federated = json!({ "metadata": {
        "name": "web-federated", "namespace": "ns",
        "labels": { l::MIRRORED_SERVICE: "true" },
        "annotations": {
            l::REMOTE_DISCOVERY: "web@east", l::PREFER: "east",
            l::MANAGED_BY: l::MANAGER, l::INSTALLATION: engine.settings.config.namespace,
        },
    } });
    let federated: Service = serde_json::from_value(federated).unwrap();
    engine.on_local_event(LocalEvent::Mirrors(list(vec![federated])));
    let member = json!({
        "metadata": {
            "name": "web", "namespace": "ns", "labels": { "mirror.linkerd.io/federated": "member" },
        },
        "spec": { "clusterIP": "10.0.0.1", "ports": [{ "port": 80 }] },
    });
    let member: Service = serde_json::from_value(member).unwrap();
    let (mirror, shared) = (
        Key::mirror("east", "ns", "web"),
        Key::federated("ns", "web"),
    );
    // A member is mirrored because it is preferred, unless its cluster may not take part.
    for (federation, is_wanted) in [("any", true), ("none", false)] {
        let mut link = link_to("east", "east");
        let annotations = link.metadata.annotations.get_or_insert_default();
        annotations.insert(l::FEDERATION.to_owned(), federation.to_owned());
        engine.apply(&link);
        let target = Target::parse(&link, false).unwrap();
        assert_eq!(
            engine.is_wanted(&mirror, &target, &member),
            is_wanted,
            "{federation}"
        );
        assert!(engine.is_wanted(&shared, &target, &member), "{federation}");
    }
}
