//! The command lines of the three servers, and the files that these read.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use anyhow::Context as _;
use programs::Assets;
use serde_json::json;

use crate::certificates::{Authority, Identity, key_pair};
use crate::kubeconfig::{self, Entry};
use crate::process::Spec;

pub(crate) const AUDIT_LOG: &str = "audit.log";
/// Folder of what etcd holds.
pub(crate) const ETCD_DATA: &str = "etcd";

const AUDIT_POLICY: &str = "audit-policy.json";
const AUTHORITY: &str = "ca.crt";
const SERVING_CERTIFICATE: &str = "apiserver.crt";
const SERVING_KEY: &str = "apiserver.key";
const SERVICE_ACCOUNT_KEY: &str = "service-account.key";
const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "service-account.pub";
const CONTROLLER_MANAGER_KUBECONFIG: &str = "kube-controller-manager.kubeconfig";

/// The controllers of Services, Endpoints, `ServiceAccounts`, Namespaces and owner references, which need no nodes.
const CONTROLLERS: [&str; 9] = [
    "serviceaccount-token-controller",
    "serviceaccount-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "clusterrole-aggregation-controller",
    "root-ca-certificate-publisher-controller",
];

/// Resources that only the garbage collector watches. Each watch cache wakes its kube-apiserver once a second, and many
/// control planes are idle at once. For a resource without a watch cache, kube-apiserver asks etcd.
const NOT_CACHED: [&str; 37] = [
    "apiservices.apiregistration.k8s.io",
    "certificatesigningrequests.certificates.k8s.io",
    "controllerrevisions.apps",
    "cronjobs.batch",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "daemonsets.apps",
    "deviceclasses.resource.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "horizontalpodautoscalers.autoscaling",
    "ingressclasses.networking.k8s.io",
    "ingresses.networking.k8s.io",
    "jobs.batch",
    "limitranges",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "networkpolicies.networking.k8s.io",
    "persistentvolumeclaims",
    "persistentvolumes",
    "poddisruptionbudgets.policy",
    "podtemplates",
    "priorityclasses.scheduling.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "replicasets.apps",
    "replicationcontrollers",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "resourcequotas",
    "resourceslices.resource.k8s.io",
    "runtimeclasses.node.k8s.io",
    "statefulsets.apps",
    "storageclasses.storage.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "volumeattachments.storage.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
];

/// The ports of one control plane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) api_server: u16,
}

impl Ports {
    /// Ports that were free a moment ago; whoever binds them must be ready to lose the race.
    pub(crate) fn free() -> anyhow::Result<Self> {
        // Held until all three are chosen, so that they differ.
        let held = [free_listener()?, free_listener()?, free_listener()?];
        let port = |n: usize| held[n].local_addr().map(|address| address.port());
        Ok(Self {
            etcd: port(0)?,
            etcd_peer: port(1)?,
            api_server: port(2)?,
        })
    }
}

/// Listens without blocking on a free port, which is below the range from which the system hands out ports. So a port that
/// is closed for a while can be bound again.
pub(crate) fn free_listener() -> anyhow::Result<TcpListener> {
    const FIRST: u64 = 20_000;
    const COUNT: u64 = 12_000;
    for attempt in 0..200_u32 {
        let port = u16::try_from(FIRST + RandomState::new().hash_one(attempt) % COUNT)?;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            listener.set_nonblocking(true)?;
            return Ok(listener);
        }
    }
    anyhow::bail!("found no free port on the loopback interface")
}

/// Writes the files that kube-apiserver and kube-controller-manager read.
pub(crate) fn write_files(folder: &Path, authority: &Authority, url: &str) -> anyhow::Result<()> {
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).with_context(|| format!("failed to write {name}"))
    };
    let Identity { certificate, key } = authority.server()?;
    write(AUTHORITY, &authority.certificate())?;
    write(SERVING_CERTIFICATE, &certificate)?;
    write(SERVING_KEY, &key)?;
    let (private, public) = key_pair()?;
    write(SERVICE_ACCOUNT_KEY, &private)?;
    write(SERVICE_ACCOUNT_PUBLIC_KEY, &public)?;
    write(AUDIT_POLICY, &audit_policy().to_string())?;
    let controller_manager = Entry {
        name: "kube-controller-manager".into(),
        url: url.into(),
        authority: authority.certificate(),
        // In the group of administrators too, because the RBAC rules for this user may not exist yet.
        identity: authority.client("system:kube-controller-manager", &["system:masters"])?,
    };
    kubeconfig::write(
        &folder.join(CONTROLLER_MANAGER_KUBECONFIG),
        &[&controller_manager],
    )
}

/// Who did what, without bodies. What the servers read for themselves is left out: nobody counts it, and it is most.
fn audit_policy() -> serde_json::Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": true,
        "rules": [
            {
                "level": "None",
                "users": ["system:apiserver", "system:kube-controller-manager"],
                "verbs": ["get", "list", "watch"],
            },
            { "level": "Metadata" },
        ],
    })
}

/// Where etcd listens for clients.
pub(crate) fn etcd_url(ports: Ports) -> String {
    format!("http://127.0.0.1:{}", ports.etcd)
}

pub(crate) fn etcd(assets: &Assets, folder: &Path, ports: Ports) -> Spec {
    let clients = etcd_url(ports);
    let peers = format!("http://127.0.0.1:{}", ports.etcd_peer);
    Spec {
        name: "etcd",
        program: assets.program("etcd"),
        arguments: vec![
            format!("--data-dir={}", folder.join(ETCD_DATA).display()),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
            "--unsafe-no-fsync".into(),
            // It elects itself after one to five times the interval between heartbeats.
            "--heartbeat-interval=100".into(),
            "--election-timeout=500".into(),
            // By default it commits, and wakes up, ten times a second. Uncommitted entries are in its log if it is killed.
            "--backend-batch-interval=1s".into(),
        ],
        folder: folder.into(),
    }
}

/// Where a control plane takes `ClusterIP`s from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClusterIps {
    /// Addresses that lead nowhere: there is no kube-proxy.
    Nowhere,
    /// Loopback addresses: who listens at one stands for what is behind it. No EndpointSlice may have them.
    Loopback,
    /// Like [`Self::Nowhere`], but only this range of IPv4.
    Few(&'static str),
}

impl ClusterIps {
    fn range(self) -> String {
        let ipv4 = match self {
            Self::Nowhere => "10.96.0.0/12",
            Self::Loopback => "127.96.0.0/12",
            Self::Few(range) => range,
        };
        format!("{ipv4},fd00:10:96::/108")
    }
}

pub(crate) fn api_server(
    assets: &Assets,
    folder: &Path,
    ports: Ports,
    cluster_ips: ClusterIps,
) -> Spec {
    let path = |name: &str| folder.join(name).display().to_string();
    Spec {
        name: "kube-apiserver",
        program: assets.program("kube-apiserver"),
        arguments: vec![
            format!("--etcd-servers={}", etcd_url(ports)),
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=127.0.0.1".into(),
            format!("--secure-port={}", ports.api_server),
            format!("--cert-dir={}", path("certificates")),
            format!("--tls-cert-file={}", path(SERVING_CERTIFICATE)),
            format!("--tls-private-key-file={}", path(SERVING_KEY)),
            format!("--client-ca-file={}", path(AUTHORITY)),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".into(),
            format!(
                "--service-account-key-file={}",
                path(SERVICE_ACCOUNT_PUBLIC_KEY)
            ),
            format!(
                "--service-account-signing-key-file={}",
                path(SERVICE_ACCOUNT_KEY)
            ),
            format!("--service-cluster-ip-range={}", cluster_ips.range()),
            "--authorization-mode=RBAC".into(),
            "--allow-privileged=true".into(),
            "--endpoint-reconciler-type=none".into(),
            "--disable-admission-plugins=ServiceAccount".into(),
            format!(
                "--watch-cache-sizes={}",
                NOT_CACHED.map(|kind| format!("{kind}#0")).join(",")
            ),
            format!("--audit-policy-file={}", path(AUDIT_POLICY)),
            format!("--audit-log-path={}", path(AUDIT_LOG)),
            // The API server responds after it has written the line, so whoever has the response finds the line.
            "--audit-log-mode=blocking".into(),
            "--audit-log-maxsize=4096".into(),
        ],
        folder: folder.into(),
    }
}

pub(crate) fn controller_manager(assets: &Assets, folder: &Path) -> Spec {
    let path = |name: &str| folder.join(name).display().to_string();
    Spec {
        name: "kube-controller-manager",
        program: assets.program("kube-controller-manager"),
        arguments: vec![
            format!("--kubeconfig={}", path(CONTROLLER_MANAGER_KUBECONFIG)),
            format!("--controllers={}", CONTROLLERS.join(",")),
            "--leader-elect=false".into(),
            "--secure-port=0".into(),
            format!("--root-ca-file={}", path(AUTHORITY)),
            format!(
                "--service-account-private-key-file={}",
                path(SERVICE_ACCOUNT_KEY)
            ),
            // High enough that no test waits for these limits.
            "--kube-api-qps=200".into(),
            "--kube-api-burst=400".into(),
            "--concurrent-endpoint-syncs=20".into(),
            "--concurrent-service-endpoint-syncs=20".into(),
            "--mirroring-concurrent-service-endpoint-syncs=20".into(),
        ],
        folder: folder.into(),
    }
}
