//! Runs the steps of docs/migrate.md exactly as they are written, with Linkerd's own service mirror, while requests go
//! to mirrors.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use control_plane::eventually;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::DeleteParams};
use tokio::time::sleep;

use super::without_failures;
use crate::{
    load::Load,
    rig::{
        NAMESPACE, Rig,
        cluster::EXTENSION,
        deployments::Deployments,
        mirrors::{FLAT, FOLLOWS, GATED, address_of},
        wait::SOON,
        workloads::service,
    },
    table::Row,
};

const GUIDE: &str = include_str!("../../../docs/migrate.md");
/// Longer than it takes until a proxy's stream gets the removal of endpoints.
const HOLD: Duration = Duration::from_secs(30);
const PROBE: &str = "probe-east";
/// For our controller: the Link of `linkerd multicluster link` does not say how headless Services are mirrored.
const HEADLESS: &str = "multicluster.linkerd.io/headless-services=enabled";
/// The probe Service that `linkerd multicluster link` creates.
const PROBE_OF_LINK: &str = "probe-gateway-east";
const EXPORTED: &str = "mirror.linkerd.io/exported";
/// Services that are exported while Linkerd's own controller runs, so that it creates their mirrors. The last one has no
/// local member.
const LATE: [(&str, &str, &str); 3] = [
    ("late-gated", EXPORTED, "true"),
    ("late-flat", EXPORTED, "remote-discovery"),
    ("late-web", "mirror.linkerd.io/federated", "member"),
];
/// Their mirrors, each with another mirror that has the same endpoints.
const MIRRORS: [(&str, &str); 3] = [
    ("late-gated-east", GATED),
    ("late-flat-east", FLAT),
    ("late-web-federated", FLAT),
];

/// How Linkerd's own controller of a link is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Former {
    /// By the value `controllers` of the extension, since 2.18.
    Value,
    /// By `linkerd multicluster link`, up to 2.17. Later versions have this command, too.
    Link,
}

/// Moves to Linkerd's own service mirror, and then to linkerd-mc again.
pub(super) async fn there_and_back(rig: &mut Rig) -> anyhow::Result<Row> {
    round_trip(rig, Former::Value).await
}

/// The same, with the controller that `linkerd multicluster link` installs.
pub(super) async fn with_link(rig: &mut Rig) -> anyhow::Result<Row> {
    round_trip(rig, Former::Link).await
}

async fn round_trip(rig: &mut Rig, former: Former) -> anyhow::Result<Row> {
    let mut deployments = Deployments::new(&rig.west).await?;
    let load = rig.load_with(vec![rig.host().await?]).await?;
    match former {
        Former::Value => walk(rig, &mut deployments, "Go back").await?,
        Former::Link => back_to_link(rig, &mut deployments).await?,
    }
    sleep(HOLD).await;
    rig.proxy_is_right(FOLLOWS).await?;
    host_agrees(rig).await?;
    let back = without_failures(&load.finish().await?).context("on the way back")?;

    let count = LATE.len() - usize::from(rig.is_strict());
    let (exported, mirrors) = (&LATE[..count], &MIRRORS[..count]);
    for (name, label, value) in exported {
        rig.east
            .apply(&service(name, label, value).to_string())
            .await?;
    }
    let mut targets = Vec::new();
    for (mirror, _) in mirrors {
        targets.push(rig.target(mirror).await?);
    }
    let late = Load::start(&rig.source.client, &targets);
    agree(rig, mirrors).await?;
    late.count_anew();
    let load = rig.load_with(vec![rig.host().await?]).await?;
    let before = cluster_ips(rig).await?;
    walk(rig, &mut deployments, "Take over").await?;
    let after = cluster_ips(rig).await?;
    ensure!(before == after, "mirrors changed: {before:?} {after:?}");
    sleep(HOLD).await;
    rig.proxy_is_right(FOLLOWS).await?;
    host_agrees(rig).await?;
    let agreed = agree(rig, mirrors).await;
    let left = rig.west.get(&["endpoints", "-n", NAMESPACE]).await?;
    let tallies = [load.finish().await?, late.finish().await?];
    for (name, _, _) in exported {
        let services = rig.east.services(NAMESPACE);
        services.delete(name, &DeleteParams::default()).await?;
    }
    agreed?;
    let left = left["items"].as_array().into_iter().flatten();
    let left: Vec<&str> = left
        .filter_map(|endpoints| endpoints["metadata"]["name"].as_str())
        .filter(|name| name.ends_with("-east"))
        .collect();
    ensure!(left.is_empty(), "Endpoints of mirrors are left: {left:?}");
    let over = without_failures(&tallies.into_iter().flatten().collect())
        .context("on the way over again")?;
    // The guide installs with the defaults, and other cases need the values of the rig.
    rig.west.install().await?;
    rig.replace_controller().await?;
    rig.link().await?;
    let measured = format!("{} of them on the way back", back.requests);
    Ok(over.and(&back).with(measured))
}

/// Runs the steps in a section of the guide.
pub(super) async fn walk(
    rig: &mut Rig,
    deployments: &mut Deployments,
    section: &str,
) -> anyhow::Result<()> {
    // Linkerd's own controller resolves its probe Service by name.
    let probe = rig.west.services(EXTENSION).get(PROBE).await?;
    let address = address_of(&probe).context("no address to probe through")?;
    rig.source.dns.know(PROBE, address);
    let steps = steps(section);
    ensure!(steps.len() > 4, "{section} has {} steps", steps.len());
    for step in steps {
        deployments.shell(rig, step).await?;
    }
    Ok(())
}

/// Stops our controller and hands back as the guide says, and applies what `linkerd multicluster link` prints.
async fn back_to_link(rig: &mut Rig, deployments: &mut Deployments) -> anyhow::Result<()> {
    let back = steps("Go back");
    let [stop, hand_back, ..] = back.as_slice() else {
        anyhow::bail!("the guide has {} steps to go back", back.len());
    };
    for step in [*stop, *hand_back] {
        deployments.shell(rig, step).await?;
    }
    store_token(rig).await?;
    let print = format!(
        "linkerd --context east multicluster link --cluster-name east --api-server-address {} \
         --set enableHeadlessServices=true",
        rig.east_api.url()
    );
    let apply = "kubectl --context west apply -f -";
    // Its controller resolves the probe Service when it starts.
    let probe = format!("{print} | {apply} -l mirror.linkerd.io/mirrored-gateway=true");
    deployments.shell(rig, &probe).await?;
    let service = rig.west.services(EXTENSION).get(PROBE_OF_LINK).await?;
    let address = address_of(&service).context("no address to probe through")?;
    rig.source.dns.know(PROBE_OF_LINK, address);
    let script = format!(
        "{print} | {apply}\n\
         kubectl --context west -n {EXTENSION} annotate link east {HEADLESS}\n\
         linkerd --context west multicluster install | {apply}\n\
         kubectl --context west -n {EXTENSION} rollout status deployment linkerd-service-mirror-east --timeout=2m"
    );
    deployments.shell(rig, &script).await.map(|_| ())
}

/// Lets Kubernetes store a token of the account, without which Linkerd's `link` fails.
async fn store_token(rig: &Rig) -> anyhow::Result<()> {
    let value = "remoteMirrorServiceAccountToken=true";
    rig.east.install_with(value).await?;
    let tokens: Api<Secret> = Api::namespaced(rig.east.plane.client(), EXTENSION);
    let name = "linkerd-service-mirror-remote-access-default-token";
    eventually("the token of the remote access account", SOON, async || {
        let data = tokens.get(name).await?.data;
        Ok(data.and_then(|data| data.contains_key("token").then_some(())))
    })
    .await
}

/// The shell blocks of a section.
fn steps(section: &str) -> Vec<&'static str> {
    let heading = format!("\n## {section}\n");
    let text = GUIDE
        .split_once(heading.as_str())
        .map_or("", |(_, text)| text);
    let text = text.split_once("\n## ").map_or(text, |(text, _)| text);
    text.split("\n```sh\n")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("\n```")?.0))
        .collect()
}

/// The `ClusterIP`s of all mirrors.
async fn cluster_ips(rig: &Rig) -> anyhow::Result<BTreeMap<String, String>> {
    let mirrors = [
        "services",
        "-A",
        "-l",
        "mirror.linkerd.io/mirrored-service=true",
    ];
    let found = rig.west.get(&mirrors).await?;
    let all = found["items"].as_array().into_iter().flatten();
    Ok(all
        .map(|mirror| {
            let text = |pointer| mirror.pointer(pointer).map(ToString::to_string);
            let name = [text("/metadata/namespace"), text("/metadata/name")];
            let name = name.into_iter().flatten().collect();
            (name, text("/spec/clusterIP").unwrap_or_default())
        })
        .collect())
}

/// Waits until the proxy has the endpoints of the mirrors.
async fn agree(rig: &Rig, mirrors: &[(&str, &str)]) -> anyhow::Result<()> {
    for (mirror, like) in mirrors {
        let service = format!("{NAMESPACE}/{mirror}");
        let expected = rig.expected(like);
        rig.source
            .oracle
            .agrees(&service, &expected, FOLLOWS)
            .await?;
    }
    Ok(())
}

/// Waits until the proxy has the gateway as the endpoint of the host's mirror.
async fn host_agrees(rig: &Rig) -> anyhow::Result<()> {
    let service = format!("{NAMESPACE}/{}", rig.host().await?.name);
    let gateway = rig.expected(GATED);
    rig.source.oracle.agrees(&service, &gateway, FOLLOWS).await
}
