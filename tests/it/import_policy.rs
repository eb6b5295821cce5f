//! The import policy for a target cluster: into which namespaces it may mirror, how many namespaces are created for it,
//! and which federated Services it may join.

use control_plane::{ControlPlane, eventually};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use linkerd_mc::api::{labels as l, link::LinkStatus};
use serde_json::json;

use crate::support::{
    SOON,
    audit::{mark, writes_in},
    controller::Controller,
    installation::{NAMESPACE, reinstall},
    links::{
        annotate, condition_is, condition_says, in_step, member_is, mirror_is, own_link, said,
        status_that, unlink,
    },
    objects::{
        delete, export, gone, join, label, member, members_are, namespace, regroup, service,
        services, web,
    },
    planes::{alone, hub},
    program::run,
};

/// Sets a label of a namespace, or removes it.
async fn relabel(plane: &ControlPlane, namespace: &str, key: &str, value: Option<&str>) {
    let change = Patch::Merge(json!({ "metadata": { "labels": { key: value } } }));
    Api::<Namespace>::all(plane.client())
        .patch(namespace, &PatchParams::default(), &change)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_mirrors_into_the_namespaces_that_its_link_allows() {
    let (east, west) = hub().await.pair();
    namespace("open", &[east, west]).await;
    namespace("closed", &[east, west]).await;
    let only = "--allowed-namespaces=kubernetes.io/metadata.name in (open)";
    own_link(west, east, "chosen", &[only]).await;
    for namespace in ["open", "closed"] {
        export(east, namespace, &member("web", "chosen", "chosen")).await;
    }
    service(west, "open", "web-chosen", |_| true).await;
    members_are(west, "open", "web-federated", Some("web@chosen"), None).await;
    let why = "the Link does not allow namespace closed (annotation multicluster.linkerd.io/allowed-namespaces)";
    let refused = mirror_is(west, "chosen", "closed", "web", "NamespaceNotAllowed").await;
    assert_eq!((refused.status.as_str(), &*refused.message), ("False", why));
    let refused = member_is(west, "chosen", "closed", "web", "NamespaceNotAllowed").await;
    assert_eq!(refused.message, why);
    for name in ["web-chosen", "web-federated"] {
        gone(west, "closed", name).await;
    }

    in_step(west, "chosen", &[]).await;
    let plan = run(west.kubeconfig(), &["plan", "chosen"]).data();
    let line = format!("‼ closed/web: NamespaceNotAllowed: {why}\n");
    assert_eq!(plan, format!("{line}{line}Nothing to do.\n"));

    // The selector may use other labels, which can change while the Link exists.
    let selector = Some("team=blue,!closed");
    annotate(west, "chosen", json!({ l::ALLOWED_NAMESPACES: selector })).await;
    for name in ["web-chosen", "web-federated"] {
        gone(west, "open", name).await;
    }
    relabel(west, "closed", "team", Some("blue")).await;
    service(west, "closed", "web-chosen", |_| true).await;
    members_are(west, "closed", "web-federated", Some("web@chosen"), None).await;
    mirror_is(west, "chosen", "open", "web", "NamespaceNotAllowed").await;
    mirror_is(west, "chosen", "closed", "web", "Mirrored").await;
    relabel(west, "closed", "closed", Some("for-good")).await;
    for name in ["web-chosen", "web-federated"] {
        gone(west, "closed", name).await;
    }
    relabel(west, "closed", "closed", None).await;
    let stands = service(west, "closed", "web-chosen", |_| true).await;

    // An annotation that cannot be parsed changes only the status.
    for (key, value, why) in [
        (
            l::ALLOWED_NAMESPACES,
            "team in blue",
            "requires a list of values",
        ),
        (l::ALLOWED_NAMESPACES, "", "it is empty"),
        (
            l::FEDERATION,
            "some",
            "invalid value \"some\" (use any, local-members or none)",
        ),
    ] {
        annotate(west, "chosen", json!({ key: value })).await;
        let said = format!("invalid annotation {key}: ");
        let invalid = ("False", "InvalidLink");
        let condition = condition_says(west, "chosen", "Ready", invalid, &said).await;
        assert!(condition.message.contains(why), "{}", condition.message);
        let original = Some("team=blue").filter(|_| key == l::ALLOWED_NAMESPACES);
        annotate(west, "chosen", json!({ key: original })).await;
        condition_is(west, "chosen", "Ready", "True", "Mirroring").await;
    }
    let same = services(west, "closed").get("web-chosen").await.unwrap();
    assert_eq!(same.uid(), stands.uid());

    annotate(west, "chosen", json!({ l::ALLOWED_NAMESPACES: null })).await;
    for namespace in ["open", "closed"] {
        service(west, namespace, "web-chosen", |_| true).await;
    }
    in_step(west, "chosen", &[]).await;
    unlink(west, "chosen").await;
    for namespace in ["open", "closed"] {
        gone(west, namespace, "web-chosen").await;
        gone(west, namespace, "web-federated").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn protected_namespaces_are_cleared_without_confirmation_and_filled_only_if_unprotected() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    // The Link names protected namespaces in its annotation, which does not lift the protection.
    let named =
        "--allowed-namespaces=kubernetes.io/metadata.name in (kube-system,linkerd-multicluster)";
    own_link(source, far, "shielded", &[named]).await;
    for namespace in ["kube-system", NAMESPACE] {
        export(far, namespace, &member("shielded", "shielded", "shielded")).await;
    }
    join(source, "kube-system", "shielded", "member", "no").await;
    let unprotected = ["--protected-namespaces="];
    // The admission policy has to allow these namespaces, too.
    reinstall(source, &["--set", "protectedNamespaces="]).await;
    let mut controller = Controller::start(source, &unprotected);
    let stands = async || {
        service(source, "kube-system", "shielded-shielded", |_| true).await;
        let (remote, local) = (Some("shielded@shielded"), Some("shielded"));
        members_are(source, "kube-system", "shielded-federated", remote, local).await;
    };
    stands().await;
    // The controller mirrors nothing into the namespace of the Links. Only probe Services are there.
    mirror_is(
        source,
        "shielded",
        NAMESPACE,
        "shielded",
        "NamespaceNotAllowed",
    )
    .await;
    service(source, NAMESPACE, "probe-shielded", |_| true).await;
    in_step(source, "shielded", &unprotected).await;
    controller.kill();
    reinstall(source, &[]).await;

    // The controller does not ask the target cluster before it removes these objects, so the API server may be paused.
    far.pause_api_server().unwrap();
    let mut controller = Controller::start(source, &[]);
    for name in ["shielded-shielded", "shielded-federated"] {
        gone(source, "kube-system", name).await;
    }
    far.resume_api_server().unwrap();
    let why = "namespace kube-system is protected from all target clusters";
    let told = async || {
        let mirror = mirror_is(
            source,
            "shielded",
            "kube-system",
            "shielded",
            "NamespaceNotAllowed",
        );
        assert_eq!(mirror.await.message, why);
        let member = member_is(
            source,
            "shielded",
            "kube-system",
            "shielded",
            "NamespaceNotAllowed",
        );
        assert_eq!(member.await.message, why);
    };
    told().await;
    in_step(source, "shielded", &[]).await;
    // `check` and `status` report the protected namespace too. On shared control planes, `check` would also report the
    // Links of other tests.
    let check = run(source.kubeconfig(), &["check", "--wait", "0s"]);
    let line = format!("shielded: kube-system/shielded: NamespaceNotAllowed ({why})");
    assert!(check.stdout.contains(&line), "{}", check.stdout);
    let status = run(source.kubeconfig(), &["status", "--services"]).data();
    assert!(status.contains("NamespaceNotAllowed"), "{status}");
    let since = mark(source);
    controller.kill();
    let mut controller = Controller::start(source, &[]);
    condition_is(source, "shielded", "Ready", "True", "Mirroring").await;
    told().await;
    assert_eq!(writes_in(source, "kube-system", since), []);
    controller.kill();

    reinstall(source, &["--set", "protectedNamespaces="]).await;
    let _controller = Controller::start(source, &unprotected);
    stands().await;
    unlink(source, "shielded").await;
    gone(source, "kube-system", "shielded-shielded").await;
    delete(source, "kube-system", "shielded").await;
    gone(source, "kube-system", "shielded-federated").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn a_cluster_joins_the_federated_services_that_its_link_lets_it_join() {
    let (east, west) = hub().await.pair();
    namespace("consent", &[east, west]).await;
    own_link(west, east, "guest", &["--federation=local-members"]).await;
    join(east, "consent", "web", "guest", "no").await;
    let refused = member_is(west, "guest", "consent", "web", "FederationNotAllowed").await;
    assert_eq!(
        (refused.status.as_str(), &*refused.message),
        (
            "False",
            "the Link allows only federated Services with a local member, and consent/web is not one \
             (annotation multicluster.linkerd.io/federation)"
        )
    );
    gone(west, "consent", "web-federated").await;
    in_step(west, "guest", &[]).await;

    // A local member means that the source cluster agrees to the federated Service.
    join(west, "consent", "web", "member", "no").await;
    let (remote, local) = (Some("web@guest"), Some("web"));
    members_are(west, "consent", "web-federated", remote, local).await;
    member_is(west, "guest", "consent", "web", "Mirrored").await;
    let withdraw = async |group: Option<&str>| {
        regroup(west, "consent", "web", group).await;
    };
    withdraw(None).await;
    gone(west, "consent", "web-federated").await;
    member_is(west, "guest", "consent", "web", "FederationNotAllowed").await;
    withdraw(Some("member")).await;
    members_are(west, "consent", "web-federated", remote, local).await;

    member_is(west, "guest", "consent", "web", "Mirrored").await;

    annotate(west, "guest", json!({ l::FEDERATION: "none" })).await;
    members_are(west, "consent", "web-federated", None, local).await;
    let refused = member_is(west, "guest", "consent", "web", "FederationNotAllowed").await;
    assert_eq!(
        refused.message,
        "the Link does not allow federated Services (annotation multicluster.linkerd.io/federation)"
    );
    in_step(west, "guest", &[]).await;
    let plan = run(west.kubeconfig(), &["plan", "guest"]).data();
    assert!(
        plan.contains("‼ consent/web: FederationNotAllowed: "),
        "{plan}"
    );

    // `any` is the default, as in Linkerd.
    annotate(west, "guest", json!({ l::FEDERATION: "any" })).await;
    members_are(west, "consent", "web-federated", remote, local).await;
    withdraw(None).await;
    members_are(west, "consent", "web-federated", remote, None).await;
    unlink(west, "guest").await;
    gone(west, "consent", "web-federated").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn members_leave_with_the_last_local_member_though_their_cluster_is_unreachable() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("hosted", &[source, far]).await;
    own_link(source, far, "hosted", &["--federation=local-members"]).await;
    for plane in [source, far] {
        let group = if std::ptr::eq(plane, source) {
            "member"
        } else {
            "hosted"
        };
        join(plane, "hosted", "web", group, "no").await;
        join(plane, "hosted", "later", group, "no").await;
    }
    let mut controller = Controller::start(source, &[]);
    for (name, member) in [("web-federated", "web"), ("later-federated", "later")] {
        let remote = format!("{member}@hosted");
        members_are(source, "hosted", name, Some(&remote), Some(member)).await;
    }
    far.pause_api_server().unwrap();
    condition_is(source, "hosted", "Connected", "False", "Unreachable").await;
    delete(source, "hosted", "web").await;
    gone(source, "hosted", "web-federated").await;
    // The last local member may also be deleted while no controller runs.
    controller.kill();
    delete(source, "hosted", "later").await;
    let _controller = Controller::start(source, &[]);
    gone(source, "hosted", "later-federated").await;
    far.resume_api_server().unwrap();
    for name in ["web", "later"] {
        member_is(source, "hosted", "hosted", name, "FederationNotAllowed").await;
    }
    in_step(source, "hosted", &[]).await;
    unlink(source, "hosted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_of_created_namespaces_holds_across_restarts() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    let wanted: Vec<String> = (0..6).map(|n| format!("crowd-{n}")).collect();
    own_link(source, far, "crowd", &[]).await;
    for name in &wanted {
        namespace(name, &[far]).await;
        export(far, name, &web("web", "crowd")).await;
        export(far, name, &web("sql", "crowd")).await;
    }
    let creates = "enableNamespaceCreation=true,controller.maxNamespacesPerLink=2";
    reinstall(source, &["--set", creates]).await;
    let flags = ["--enable-namespace-creation", "--max-namespaces-per-link=2"];
    let created = async || {
        let ours = format!("{}=crowd", l::CLUSTER_NAME);
        let all = Api::<Namespace>::all(source.client());
        let found = all
            .list(&ListParams::default().labels(&ours))
            .await
            .unwrap();
        found
            .items
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect::<Vec<_>>()
    };
    let counted = |status: &LinkStatus, mirrored: i64, refused: usize| {
        let over = wanted.iter().filter(|name| {
            let said = said(&status.mirror_services, name, "web");
            said.is_some_and(|said| said.reason == "LimitExceeded")
        });
        status.mirrored == Some(mirrored) && over.count() == refused
    };
    let mut controller = Controller::start(source, &flags);
    status_that(source, "crowd", |status| counted(status, 4, 4)).await;
    let first = created().await;
    assert_eq!(first.len(), 2, "{first:?}");
    // `plan` reads the limit from the Deployment, so it finds nothing to do.
    in_step(source, "crowd", &[]).await;

    controller.kill();
    let _controller = Controller::start(source, &flags);
    condition_is(source, "crowd", "Ready", "True", "Mirroring").await;
    status_that(source, "crowd", |status| counted(status, 4, 4)).await;
    assert_eq!(created().await, first);

    // If somebody removes the label of a created namespace, there is room for another one.
    relabel(source, &first[0], l::CLUSTER_NAME, None).await;
    status_that(source, "crowd", |status| counted(status, 6, 3)).await;
    let now = created().await;
    assert_eq!(now.len(), 2, "{now:?}");
    // A namespace that somebody else creates also makes room.
    let missing = wanted
        .iter()
        .find(|name| !now.contains(name) && **name != first[0])
        .unwrap();
    namespace(missing, &[source]).await;
    status_that(source, "crowd", |status| counted(status, 8, 2)).await;
    let one = service(source, missing, "web-crowd", |_| true).await;
    assert_eq!(label(&one, l::CLUSTER_NAME), Some("crowd"));
    // A namespace that the controller creates for another Link also makes room, because each Link has its own limit.
    let over = wanted
        .iter()
        .find(|name| ![&first[0], missing].contains(name) && !now.contains(name));
    let over = over.unwrap();
    own_link(source, far, "more", &[]).await;
    export(far, over, &web("own", "more")).await;
    service(source, over, "own-more", |_| true).await;
    status_that(source, "crowd", |status| counted(status, 10, 1)).await;
    for link in ["crowd", "more"] {
        in_step(source, link, &[]).await;
        unlink(source, link).await;
    }
    eventually("all mirrors to be gone", SOON, async || {
        let ours = format!("{} in (crowd,more)", l::CLUSTER_NAME);
        let ours = ListParams::default().labels(&ours);
        let left = Api::<Service>::all(source.client()).list(&ours).await?;
        Ok(left.items.is_empty().then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn service_is_mirrored_only_by_the_clusters_that_it_names() {
    let alone = alone().await;
    let (source, far) = (&*alone.source, &*alone.far);
    namespace("named", &[source, far]).await;
    own_link(source, far, "far", &[]).await;
    let own = ["--trust-domain=west.example"];
    let _controller = Controller::start(source, &own);
    let to = async |service: &str, clusters: Option<&str>| {
        let change = json!({ "metadata": { "annotations": { l::EXPORT_TO: clusters } } });
        services(far, "named")
            .patch(service, &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap();
    };
    export(far, "named", &member("web", "far", "far")).await;
    export(far, "named", &web("flat", "far-direct")).await;
    let mirrors = ["web-far", "flat-far", "web-federated"];
    for name in mirrors {
        service(source, "named", name, |_| true).await;
    }

    for name in ["web", "flat"] {
        to(name, Some("north.example")).await;
    }
    for name in mirrors {
        gone(source, "named", name).await;
    }
    let why = "far does not export it to west.example, only to north.example (annotation \
               multicluster.linkerd.io/export-to)";
    for found in [
        mirror_is(source, "far", "named", "web", "ExportedToOthers").await,
        mirror_is(source, "far", "named", "flat", "ExportedToOthers").await,
        member_is(source, "far", "named", "web", "ExportedToOthers").await,
    ] {
        assert_eq!((found.status.as_str(), &*found.message), ("False", why));
    }
    // Nothing is wrong with them.
    status_that(source, "far", |now| now.unhealthy == Some(0)).await;
    in_step(source, "far", &own).await;
    let plan = run(source.kubeconfig(), &["plan", "far", own[0]]).data();
    assert!(
        plan.contains(&format!("named/web: ExportedToOthers: {why}\n")),
        "{plan}"
    );
    let status = run(source.kubeconfig(), &["status", "--services"]).data();
    assert!(status.contains("ExportedToOthers"), "{status}");

    to("web", Some("west.example,")).await;
    let found = mirror_is(source, "far", "named", "web", "UnclearExport").await;
    let why = "far exports it to no cluster: invalid annotation multicluster.linkerd.io/export-to: invalid trust domain \"\"";
    assert_eq!(found.message, why);
    status_that(source, "far", |now| now.unhealthy == Some(2)).await;

    to("web", Some("north.example, west.example")).await;
    to("flat", None).await;
    for name in mirrors {
        service(source, "named", name, |_| true).await;
    }
}
