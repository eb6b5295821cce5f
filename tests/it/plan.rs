//! `plan` shows what the controller will do, with the controller's settings. Most other tests check at their end, with
//! [`in_step`], that `plan` finds nothing to do.

use control_plane::ControlPlane;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    controller::Controller,
    installation::{NAMESPACE, reinstall},
    links::{in_step, mirror_is, own_link, unlink},
    objects::{
        addresses, create, export, gone, hosts, namespace, service, slices, slices_that, stateful,
        web,
    },
    planes::alone,
    program::{Outcome, run},
};

fn plan(plane: &ControlPlane, flags: &[&str]) -> Outcome {
    let args = [&["plan", "told"], flags].concat();
    run(plane.kubeconfig(), &args)
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_takes_its_settings_from_the_deployment_and_flags_override_them() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("told", &[source, far]).await;
    namespace("told-missing", &[far]).await;
    own_link(source, far, "told", &[]).await;
    stateful(far, "told", "db", "told").await;
    hosts(far, "told", "db", &[("db-0", true)]).await;
    export(far, "told-missing", &web("web", "told")).await;
    let own = [
        "--set",
        "controller.enableHeadlessServices=true,enableNamespaceCreation=true",
    ];
    // `plan` reads the settings from the Deployment.
    reinstall(source, &own).await;
    let flags = ["--enable-headless-services", "--enable-namespace-creation"];
    let _controller = Controller::start(source, &flags);
    service(source, "told", "db-0-told", |_| true).await;
    service(source, "told-missing", "web-told", |_| true).await;
    in_step(source, "told", &[]).await;
    let other = plan(source, &["--enable-headless-services=false"]);
    assert_eq!(other.code, 2, "{}", other.stderr);
    assert!(
        (other.stdout).contains("- 2 Services: told/db-0-told, told/db-told"),
        "{}",
        other.stdout
    );
    let whole = plan(source, &["--enable-headless-services=false", "--diff"]);
    assert!(
        whole.stdout.contains("- Service told/db-0-told"),
        "{}",
        whole.stdout
    );

    // Without a Deployment, `plan` does not know the settings of the controller.
    Api::<k8s_openapi::api::apps::v1::Deployment>::namespaced(source.client(), NAMESPACE)
        .delete(l::CONTROLLER_NAME, &DeleteParams::default())
        .await
        .unwrap();
    let unknown = plan(source, &[]);
    assert_eq!(unknown.code, 2, "{}", unknown.stderr);
    let note = "Deployment linkerd-multicluster/linkerd-multicluster-controller not found; \
                planning with the given flags and the defaults of run-controller";
    assert!(unknown.stderr.starts_with(note), "{}", unknown.stderr);
    assert_eq!(plan(source, &flags).code, 0);
    unlink(source, "told").await;
    gone(source, "told", "db-0-told").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_sees_slices_without_labels_and_names_that_are_taken() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("seen", &[source, far]).await;
    own_link(source, far, "seen", &[]).await;
    // Kubernetes does not copy labels to slices that users create.
    let mut custom = web("custom", "seen");
    custom.spec.as_mut().unwrap().selector = None;
    create(far, "seen", &custom).await;
    let slice = json!({
        "metadata": { "name": "custom-1", "labels": { l::SLICE_SERVICE: "custom" } },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["192.0.2.100"] }],
        "ports": [{ "name": "http", "port": 8080 }],
    });
    slices(far, "seen")
        .create(
            &PostParams::default(),
            &serde_json::from_value(slice).unwrap(),
        )
        .await
        .unwrap();
    create(source, "seen", &web("taken-seen", "no")).await;
    export(far, "seen", &web("taken", "seen")).await;
    let _controller = Controller::start(source, &[]);
    slices_that(source, "seen", "custom-seen", |s| {
        addresses(s) == ["192.0.2.50"]
    })
    .await;
    mirror_is(source, "seen", "seen", "taken", "NameConflict").await;
    in_step(source, "seen", &[]).await;
    let said = run(source.kubeconfig(), &["plan", "seen"]).data();
    assert_eq!(
        said,
        "‼ seen/taken: NameConflict: the name seen/taken-seen is taken by a Service that is not a mirror\nNothing to do.\n"
    );
    // Without a name, all Links.
    let all = run(source.kubeconfig(), &["plan"]);
    let own = "seen\n  ‼ seen/taken: NameConflict: ";
    assert!(all.stdout.contains(own), "{}{}", all.stdout, all.stderr);
    let all = run(source.kubeconfig(), &["plan", "-o=json"]).stdout;
    let all: serde_json::Value = serde_json::from_str(&all).unwrap();
    let mut all = all.as_array().unwrap().iter();
    let own = all.find(|plan| plan["link"] == "seen").unwrap();
    assert_eq!(own["problems"][0]["service"], "seen/taken");
    unlink(source, "seen").await;
    gone(source, "seen", "custom-seen").await;
}
