//! A Pod: an object, a network namespace, an application and a proxy.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use control_plane::eventually;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Pod as PodObject, ServiceAccount},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    cluster::{Cluster, NODE},
    identity,
    linkerd::{DESTINATION, IDENTITY, POLICY},
    network::PROXY_USER,
    process::{Process, Program, pipe},
    proxy::{Files, environment},
    wait::SOON,
};
use crate::helper;

/// The template of a Pod.
pub(crate) struct PodTemplate {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// `metadata` and `spec`, as in a Deployment.
    pub(crate) template: Value,
    /// Ports of Linkerd's controllers that run in the Pod itself. The others are reached on loopback too.
    pub(crate) own: &'static [u16],
}

impl PodTemplate {
    /// A Pod of an application with this label `app`, with a ServiceAccount of the same name.
    pub(crate) fn app(namespace: &str, name: &str, app: &str) -> Self {
        let template = json!({
            "metadata": {
                "labels": { "app": app },
                "annotations": { "linkerd.io/inject": "enabled" },
            },
            "spec": {
                "serviceAccountName": app,
                "containers": [{ "name": "app", "image": "app" }],
            },
        });
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            template,
            own: &[],
        }
    }

    /// The same, as a host of a headless Service.
    pub(crate) fn host_of(mut self, service: &str) -> Self {
        self.template["spec"]["hostname"] = json!(self.name);
        self.template["spec"]["subdomain"] = json!(service);
        self
    }
}

/// A running Pod. Its processes end when this is dropped; the object stays.
pub(crate) struct Pod {
    objects: Api<PodObject>,
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    programs: PathBuf,
    // Before the process that keeps the namespace open: fields are dropped in this order.
    pub(crate) proxy: Process,
    _forwards: Process,
    app: Process,
}

impl Pod {
    /// Starts a Pod and waits until its proxy is ready. Forwards the ports in `ways`, and those of Linkerd's
    /// controllers, from loopback in the Pod to loopback outside.
    pub(crate) async fn start(
        cluster: &mut Cluster,
        template: PodTemplate,
        ways: &[u16],
    ) -> anyhow::Result<Self> {
        let PodTemplate {
            namespace, name, ..
        } = &template;
        let what = format!("{}/{namespace}/{name}", cluster.name());
        let started = Self::try_start(cluster, &template, ways).await;
        started.with_context(|| format!("failed to start Pod {what}"))
    }

    async fn try_start(
        cluster: &mut Cluster,
        template: &PodTemplate,
        ways: &[u16],
    ) -> anyhow::Result<Self> {
        let PodTemplate {
            namespace, name, ..
        } = template;
        let objects: Api<PodObject> = Api::namespaced(cluster.plane.client(), namespace);
        let injected = serde_json::from_value(inject(cluster, template)?)?;
        let object = objects.create(&PostParams::default(), &injected).await?;
        let controllers = [DESTINATION, IDENTITY, POLICY];
        let others = controllers
            .iter()
            .filter(|port| !template.own.contains(port));
        let ways: Vec<u16> = others.chain(ways).copied().collect();
        Self::run(cluster, &object, name, &ways).await
    }

    /// Runs the programs of a Pod that exists and has a proxy, as a kubelet does, and waits until it is ready.
    pub(crate) async fn adopt(
        cluster: &mut Cluster,
        object: &PodObject,
        files: &str,
    ) -> anyhow::Result<Self> {
        let ways = [DESTINATION, IDENTITY, POLICY];
        let run = Self::run(cluster, object, files, &ways).await;
        run.with_context(|| format!("failed to run Pod {}", object.name_any()))
    }

    /// Runs the programs of a Pod. `files` is how the names of its files begin, and `ways` has all ports that are
    /// forwarded to loopback outside.
    async fn run(
        cluster: &mut Cluster,
        object: &PodObject,
        files: &str,
        ways: &[u16],
    ) -> anyhow::Result<Self> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let objects: Api<PodObject> = Api::namespaced(cluster.plane.client(), &namespace);
        let account = object.spec.as_ref();
        let account = account.and_then(|spec| spec.service_account_name.as_deref());
        let account = account.unwrap_or("default").to_owned();
        let object = serde_json::to_value(object)?;

        let address = cluster.network.next_address();
        let folder = cluster
            .place
            .home
            .join(format!("{}-{files}", cluster.name()));
        fs::create_dir_all(&folder)?;
        let path = |file: &str| folder.join(file).display().to_string();
        fs::write(
            path("resolv.conf"),
            format!("nameserver {}\n", cluster.network.gateway()),
        )?;
        let programs = cluster.place.programs.clone();
        let helper = programs.join(helper::NAME);
        let log = |part: &str| log_of(cluster, files, part);
        let resolv = path("resolv.conf");
        let app = match canary(&object) {
            Some(arguments) => start_canary(cluster, files, &arguments).await?,
            None => start_app(cluster, (&name, files), &resolv).await?,
        };
        cluster.network.connect(app.pid(), address)?;

        let gateway = cluster.network.gateway();
        let ways: Vec<String> = ways
            .iter()
            .map(|port| format!("127.0.0.1:{port}={gateway}:{port}"))
            .collect();
        let mut arguments = vec![helper::NAME, "forward"];
        arguments.extend(ways.iter().map(String::as_str));
        let as_proxy = inside(app.pid(), true);
        let forwards = Program::new(&helper, &arguments, log("forward"))
            .through(&as_proxy)
            .start()?;

        write_identity(cluster, &folder, &namespace, &account).await?;
        let identity = Files {
            identity: &path("identity"),
            token: &path("token"),
        };
        let mut proxy = Program::new(&programs.join("linkerd2-proxy"), &[], log("proxy"));
        proxy.environment = environment(&object, address, &identity)?;
        let proxy = proxy.through(&as_proxy).start()?;
        let mut pod = Self {
            objects,
            name,
            address,
            programs,
            proxy,
            _forwards: forwards,
            app,
        };
        pod.proxy_ready().await?;
        pod.set_ready(true).await?;
        Ok(pod)
    }

    /// Starts a Pod without a proxy: nobody redirects its connections.
    pub(crate) async fn start_plain(
        cluster: &mut Cluster,
        template: PodTemplate,
    ) -> anyhow::Result<Self> {
        let PodTemplate {
            namespace, name, ..
        } = &template;
        let objects: Api<PodObject> = Api::namespaced(cluster.plane.client(), namespace);
        let plain = serde_json::from_value(whole(&template))?;
        objects.create(&PostParams::default(), &plain).await?;
        let address = cluster.network.next_address();
        let resolv = cluster.place.home.join(format!("{name}.resolv.conf"));
        let nameserver = format!("nameserver {}\n", cluster.network.gateway());
        fs::write(&resolv, nameserver)?;
        let app = start_app(cluster, (name, name), &resolv.display().to_string()).await?;
        cluster.network.connect(app.pid(), address)?;
        let idle = |part: &str| {
            let sleep = Path::new("sleep");
            Program::new(sleep, &["infinity"], log_of(cluster, name, part)).start()
        };
        let pod = Self {
            objects,
            name: name.clone(),
            address,
            programs: cluster.place.programs.clone(),
            proxy: idle("no-proxy")?,
            _forwards: idle("no-forwards")?,
            app,
        };
        pod.nft(&["delete", "table", "ip", "linkerd"])?;
        pod.set_ready(true).await?;
        Ok(pod)
    }

    /// Drops packets to a port, as a firewall does.
    pub(crate) fn close(&self, port: u16) -> anyhow::Result<()> {
        let port = port.to_string();
        self.nft(&["add", "table", "ip", "closed"])?;
        let hook = "{ type filter hook prerouting priority -200; }";
        self.nft(&["add", "chain", "ip", "closed", "input", hook])?;
        let rule = ["tcp", "dport", &port, "drop"];
        self.nft(&[&["add", "rule", "ip", "closed", "input"], &rule[..]].concat())
    }

    /// Sends connections to a ClusterIP to this endpoint, as kube-proxy does on the Pod's node. Until the Pod ends.
    pub(crate) fn translate(&self, from: SocketAddr, to: SocketAddr) -> anyhow::Result<()> {
        let (ip, port) = (from.ip().to_string(), from.port().to_string());
        self.nft(&["add", "table", "ip", "services"])?;
        let hook = "{ type nat hook output priority -110; }";
        self.nft(&["add", "chain", "ip", "services", "output", hook])?;
        let matches = ["ip", "daddr", &ip, "tcp", "dport", &port];
        let add = ["add", "rule", "ip", "services", "output"];
        let leads = ["dnat", "to", &to.to_string()];
        self.nft(&[&add[..], &matches, &leads].concat())
    }

    /// Drops no packets any more.
    pub(crate) fn open(&self) -> anyhow::Result<()> {
        self.nft(&["delete", "table", "ip", "closed"])
    }

    /// Does not redirect connections to a port to the proxy, as Linkerd's init container does for skipped ports.
    pub(crate) fn skip(&self, port: u16) -> anyhow::Result<()> {
        let port = port.to_string();
        let rule = ["ip", "linkerd", "output", "tcp", "dport", &port, "return"];
        self.nft(&[&["insert", "rule"], &rule[..]].concat())
    }

    /// Changes the packet filter of the Pod.
    fn nft(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let mut prefix = inside(self.app.pid(), false);
        prefix.push("nft".to_owned());
        let mut command = Command::new(&prefix[0]);
        pipe(command.args(&prefix[1..]).args(arguments), "").map(|_| ())
    }

    /// Waits until the proxy says that it is ready.
    pub(crate) async fn proxy_ready(&mut self) -> anyhow::Result<()> {
        let url = format!("{}:4191", self.address);
        let waited = eventually("its proxy to be ready", SOON, async || {
            Ok((crate::requests::status(&url, "/ready").await? == 200).then_some(()))
        });
        let outcome = waited.await;
        self.proxy.require_running()?;
        outcome
    }

    /// Writes into the Pod's status whether it is ready.
    pub(crate) async fn set_ready(&self, ready: bool) -> anyhow::Result<()> {
        let word = if ready { "True" } else { "False" };
        let address = self.address;
        let conditions = ["Initialized", "ContainersReady", "Ready"]
            .map(|condition| json!({ "type": condition, "status": word }));
        let status = json!({ "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{ "ip": address }],
            "conditions": conditions,
        } });
        self.objects
            .patch_status(&self.name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// Deletes the object. The processes continue for a while, as in a Pod that terminates.
    pub(crate) async fn delete(&self) -> anyhow::Result<()> {
        let now = DeleteParams::default().grace_period(0);
        self.objects.delete(&self.name, &now).await?;
        Ok(())
    }

    /// A program from the folder of programs, or any other one, in the Pod's namespaces.
    pub(crate) fn program(&self, program: &str, arguments: &[&str], log: PathBuf) -> Program {
        // `join` keeps an absolute path.
        let program = self.programs.join(program);
        Program::new(&program, arguments, log).through(&inside(self.app.pid(), false))
    }
}

/// Starts the application of a Pod, in namespaces of its own. `files` is how the name of its log begins.
async fn start_app(
    cluster: &Cluster,
    (name, files): (&str, &str),
    resolv: &str,
) -> anyhow::Result<Process> {
    let helper = cluster.place.programs.join(helper::NAME);
    start_program(
        cluster,
        files,
        &helper,
        &[helper::NAME, "app", name, resolv],
    )
    .await
}

/// The arguments of a canary of `verify`, which runs linkerd-mc; `None` for other Pods.
fn canary(object: &Value) -> Option<Vec<String>> {
    let containers = object["spec"]["containers"].as_array()?;
    let canary = containers
        .iter()
        .find(|container| container["name"] == "canary")?;
    serde_json::from_value(canary["args"].clone()).ok()
}

/// Starts the program of a canary. It needs no names.
async fn start_canary(
    cluster: &Cluster,
    files: &str,
    arguments: &[String],
) -> anyhow::Result<Process> {
    let ours = Path::new(env!("CARGO_BIN_EXE_linkerd-mc"));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    start_program(cluster, files, ours, &arguments).await
}

/// Starts a program in namespaces of its own, and waits until it says that it is ready.
async fn start_program(
    cluster: &Cluster,
    files: &str,
    program: &Path,
    arguments: &[&str],
) -> anyhow::Result<Process> {
    let new = ["unshare", "--net", "--mount", "--"].map(str::to_owned);
    let log = log_of(cluster, files, "app");
    // An earlier Pod of this name has written that it was ready.
    if log.exists() {
        fs::remove_file(&log)?;
    }
    let app = Program::new(program, arguments, log).through(&new);
    let mut app = app.start()?;
    eventually("its application", SOON, async || {
        Ok(fs::read_to_string(app.log())?
            .contains("ready")
            .then_some(()))
    })
    .await?;
    app.require_running()?;
    Ok(app)
}

fn log_of(cluster: &Cluster, name: &str, part: &str) -> PathBuf {
    let file = format!("{}-{name}-{part}.log", cluster.name());
    cluster.place.logs.join(file)
}

/// The command that enters the namespaces of a Pod, as the proxy's user or as root.
fn inside(pid: u32, as_proxy: bool) -> Vec<String> {
    let mut prefix = vec![
        "nsenter".to_owned(),
        format!("--net=/proc/{pid}/ns/net"),
        format!("--mount=/proc/{pid}/ns/mnt"),
        "--".to_owned(),
    ];
    if as_proxy {
        let user = ["--reuid", PROXY_USER, "--regid", PROXY_USER];
        prefix.push("setpriv".to_owned());
        prefix.extend(user.map(str::to_owned));
        prefix.extend(["--clear-groups", "--"].map(str::to_owned));
    }
    prefix
}

/// The Pod with Linkerd's proxy, as `linkerd inject` prints it.
fn inject(cluster: &Cluster, template: &PodTemplate) -> anyhow::Result<Value> {
    let pod = whole(template);
    let mut command = Command::new(cluster.place.programs.join("linkerd"));
    command
        .args(["inject", "--manual", "--output", "json", "-"])
        .env("KUBECONFIG", cluster.plane.kubeconfig());
    let printed = pipe(&mut command, &pod.to_string())?;
    serde_json::from_str(&printed).context("failed to read the injected Pod")
}

/// The Pod of a template, as its controller creates it.
fn whole(template: &PodTemplate) -> Value {
    let PodTemplate {
        namespace,
        name,
        template,
        ..
    } = template;
    let mut pod = template.clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["namespace"] = json!(namespace);
    // Kubernetes leaves Pods without a node out of endpoints.
    pod["spec"]["nodeName"] = json!(NODE);
    pod
}

/// Does what Linkerd's init container does: writes a key, a signing request, and the token of the ServiceAccount.
async fn write_identity(
    cluster: &Cluster,
    folder: &Path,
    namespace: &str,
    account: &str,
) -> anyhow::Result<()> {
    let identity = identity::request(&cluster.identity_of(account, namespace))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.plane.client(), namespace);
    let wanted = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec!["identity.l5d.io".to_owned()],
            expiration_seconds: Some(24 * 60 * 60),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    // Kubernetes creates the account `default` after its namespace.
    let what = format!("a token for ServiceAccount {account}");
    let token = eventually(&what, SOON, async || {
        let params = PostParams::default();
        let token = accounts.create_token_request(account, &params, &wanted);
        Ok(Some(token.await?))
    })
    .await?;
    let token = token
        .status
        .context("a token request without status")?
        .token;
    let directory = folder.join("identity");
    fs::create_dir_all(&directory)?;
    for (path, content) in [
        (directory.join("key.p8"), identity.key),
        (directory.join("csr.der"), identity.request),
        (folder.join("token"), token.into_bytes()),
    ] {
        fs::write(&path, content)?;
        // The proxy runs as another user, so the file is readable for all. Only this run sees this file system.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}
