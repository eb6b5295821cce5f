//! One control plane: starting it, asking it, breaking it.

mod backup;
mod checkpoint;
mod version;

use std::fs::{self, File};
use std::future::ready;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use programs::Assets;
use tokio::time::{Instant, timeout};

use crate::audit::{self, AuditEvent};
use crate::certificates::Authority;
use crate::clients::Clients;
use crate::folder::Folder;
use crate::kubeconfig::{self, Entry};
use crate::process::Server;
use crate::servers::{self, AUDIT_LOG, ClusterIps, Ports};
use crate::wait::eventually;

pub use backup::Backup;
pub use checkpoint::Checkpoint;

/// Generous: a machine may be busy with other tests and with compilers.
const START_LIMIT: Duration = Duration::from_secs(120);
const READY_LIMIT: Duration = Duration::from_secs(2);
const BIND_FAILED: &str = "address already in use";
const BIND_TRIES: u32 = 5;

/// A running etcd, kube-apiserver and kube-controller-manager, all killed when this is dropped or this process ends.
pub struct ControlPlane {
    // Servers before the folder: fields are dropped in this order.
    controller_manager: Mutex<Server>,
    api_server: Mutex<Server>,
    etcd: Mutex<Server>,
    pub(crate) assets: Assets,
    authority: Authority,
    admin: Entry,
    config: Config,
    clients: Clients,
    kubeconfig: PathBuf,
    /// Where etcd listens for clients: `http://127.0.0.1:PORT`.
    etcd_url: String,
    folder: Folder,
}

/// The process ids of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pids {
    /// etcd.
    pub etcd: u32,
    /// kube-apiserver.
    pub api_server: u32,
    /// kube-controller-manager.
    pub controller_manager: u32,
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready; `name` (lower-case letters, digits, `-`) is the name of the
    /// context in its kubeconfig.
    ///
    /// The first call on a machine may take minutes: see [`Assets::locate`].
    pub async fn start(name: &str) -> anyhow::Result<Self> {
        Self::start_with(name, ClusterIps::Nowhere).await
    }

    /// Starts a control plane as [`Self::start`] does, whose `ClusterIP`s are loopback addresses: a test that listens at
    /// one stands for what is behind it. No EndpointSlice may have such an address.
    pub async fn start_with_loopback_cluster_ips(name: &str) -> anyhow::Result<Self> {
        Self::start_with(name, ClusterIps::Loopback).await
    }

    /// Starts a control plane as [`Self::start`] does, with this range of IPv4 for `ClusterIP`s.
    pub async fn start_with_few_cluster_ips(
        name: &str,
        range: &'static str,
    ) -> anyhow::Result<Self> {
        Self::start_with(name, ClusterIps::Few(range)).await
    }

    async fn start_with(name: &str, cluster_ips: ClusterIps) -> anyhow::Result<Self> {
        require_name(name)?;
        let assets = tokio::task::spawn_blocking(Assets::locate).await??;
        let mut tries = 1;
        loop {
            match Self::try_start(name, &assets, Ports::free()?, cluster_ips).await {
                Err(error) if tries < BIND_TRIES && format!("{error:#}").contains(BIND_FAILED) => {
                    tries += 1;
                }
                result => {
                    return result.with_context(|| format!("failed to start control plane {name}"));
                }
            }
        }
    }

    async fn try_start(
        name: &str,
        assets: &Assets,
        ports: Ports,
        cluster_ips: ClusterIps,
    ) -> anyhow::Result<Self> {
        let deadline = Instant::now() + START_LIMIT;
        let folder = Folder::create()?;
        let path = folder.path();
        let mut etcd = servers::etcd(assets, path, ports).start()?;

        let authority = Authority::new(&format!("{name}-ca"))?;
        let admin = Entry {
            name: name.into(),
            url: format!("https://127.0.0.1:{}", ports.api_server),
            authority: authority.certificate(),
            identity: authority.client("kubernetes-admin", &["system:masters"])?,
        };
        servers::write_files(path, &authority, &admin.url)?;
        let kubeconfig = path.join("kubeconfig");
        kubeconfig::write(&kubeconfig, &[&admin])?;
        let config = client_config(&kubeconfig).await?;

        wait_for_etcd(&mut etcd, deadline).await?;
        let api_server = servers::api_server(assets, path, ports, cluster_ips).start()?;
        let controller_manager = servers::controller_manager(assets, path).start()?;
        let plane = Self {
            controller_manager: Mutex::new(controller_manager),
            api_server: Mutex::new(api_server),
            etcd: Mutex::new(etcd),
            assets: assets.clone(),
            authority,
            admin,
            config,
            clients: Clients::default(),
            kubeconfig,
            etcd_url: servers::etcd_url(ports),
            folder,
        };
        plane.wait_until_ready(deadline).await?;
        plane.wait_until_controlled(deadline).await?;
        Ok(plane)
    }

    /// Until the API server says that it is ready.
    async fn wait_until_ready(&self, deadline: Instant) -> anyhow::Result<()> {
        let client = self.client();
        let outcome = eventually("the API server", deadline - Instant::now(), async || {
            if let Err(ended) = lock(&self.api_server).require_running() {
                return Ok(Some(Err(ended)));
            }
            // Whoever else has the port may accept the connection and say nothing.
            let ready = timeout(READY_LIMIT, get(&client, "/readyz")).await?;
            ready.context("it is not ready").map(|_| Some(Ok(())))
        });
        outcome
            .await
            .map_err(|error| lock(&self.api_server).explain(&format!("{error:#}")))?
    }

    /// Until kube-controller-manager has done for the `default` namespace what it does for every namespace.
    async fn wait_until_controlled(&self, deadline: Instant) -> anyhow::Result<()> {
        let outcome = eventually(
            "kube-controller-manager",
            deadline - Instant::now(),
            async || {
                self.revive_controller_manager()?;
                Ok(self.is_controlled("default").await?.then_some(()))
            },
        );
        outcome
            .await
            .map_err(|error| lock(&self.controller_manager).explain(&format!("{error:#}")))
    }

    /// Whether a namespace has what kube-controller-manager creates in every namespace.
    async fn is_controlled(&self, namespace: &str) -> anyhow::Result<bool> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let maps: Api<ConfigMap> = Api::namespaced(self.client(), namespace);
        let account = accounts.get_opt("default").await?;
        let map = maps.get_opt("kube-root-ca.crt").await?;
        Ok(account.is_some() && map.is_some())
    }

    /// Starts kube-controller-manager again if it has ended. It gives up when the API server is not ready within seconds.
    fn revive_controller_manager(&self) -> anyhow::Result<()> {
        let mut server = lock(&self.controller_manager);
        if server.exited()?.is_some() {
            server.restart()
        } else {
            Ok(())
        }
    }

    /// The name it was started under.
    pub fn name(&self) -> &str {
        &self.admin.name
    }

    /// Gives it another name, also in its kubeconfig.
    pub(crate) fn rename(&mut self, name: &str) -> anyhow::Result<()> {
        require_name(name)?;
        name.clone_into(&mut self.admin.name);
        kubeconfig::write(&self.kubeconfig, &[&self.admin])
    }

    /// A kubeconfig file of an administrator with one context, named as the control plane.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where the API server listens: `https://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.admin.url
    }

    /// The certificate of the authority that signed the API server's, as PEM.
    pub fn ca_pem(&self) -> &str {
        &self.admin.authority
    }

    /// A folder for a test's own files. Removed with the control plane.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The client of an administrator. It keeps its connections, and does not retry by itself.
    ///
    /// It belongs to the async runtime that asks for it and is of no use in another: tests have one each, so ask for a
    /// client in each test, also of a shared control plane.
    ///
    /// # Panics
    ///
    /// Outside an async runtime.
    pub fn client(&self) -> Client {
        self.clients.here(&self.config)
    }

    /// The process ids of the servers as they are now.
    pub fn pids(&self) -> Pids {
        Pids {
            etcd: lock(&self.etcd).pid(),
            api_server: lock(&self.api_server).pid(),
            controller_manager: lock(&self.controller_manager).pid(),
        }
    }

    /// Writes a kubeconfig with a client certificate for `user`, a member of `groups`: what it may do is up to RBAC.
    pub fn user_kubeconfig(&self, user: &str, groups: &[&str]) -> anyhow::Result<PathBuf> {
        let entry = Entry {
            identity: self.authority.client(user, groups)?,
            ..self.admin.clone()
        };
        let path = self
            .folder()
            .join(format!("{}.user.kubeconfig", user.replace(['/', ':'], "-")));
        kubeconfig::write(&path, &[&entry])?;
        Ok(path)
    }

    /// Writes a kubeconfig like that of [`Self::user_kubeconfig`] that leads to another address, such as a proxy's.
    pub fn kubeconfig_through(
        &self,
        url: &str,
        user: &str,
        groups: &[&str],
    ) -> anyhow::Result<PathBuf> {
        let entry = Entry {
            identity: self.authority.client(user, groups)?,
            url: url.to_owned(),
            ..self.admin.clone()
        };
        let name: String = format!("{user}-{url}")
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let path = self.folder().join(format!("{name}.kubeconfig"));
        kubeconfig::write(&path, &[&entry])?;
        Ok(path)
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Where the API server listens.
    pub(crate) fn address(&self) -> anyhow::Result<SocketAddr> {
        let address = self.admin.url.trim_start_matches("https://");
        address
            .parse()
            .with_context(|| format!("strange address {address}"))
    }

    /// Writes one kubeconfig with a context for each of `planes`; the first one's is the current one.
    pub fn merged_kubeconfig(planes: &[&Self], path: &Path) -> anyhow::Result<()> {
        let entries: Vec<&Entry> = planes.iter().map(|plane| &plane.admin).collect();
        kubeconfig::write(path, &entries)
    }

    /// The API server's own metrics, in the Prometheus text format.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        get(&self.client(), "/metrics")
            .await
            .context("failed to read the metrics of the API server")
    }

    /// The requests that the API server has answered since a mark of [`Self::audit_mark`], in the order of its answers,
    /// but for what the servers read for themselves. Since 0 it is all of them, also those before a restart.
    pub fn audit_since(&self, mut mark: u64) -> anyhow::Result<Vec<AuditEvent>> {
        self.audit_next(&mut mark)
    }

    /// Like [`Self::audit_since`], and moves the mark behind the last event: each one is in the result of exactly one call,
    /// even while requests come.
    pub fn audit_next(&self, mark: &mut u64) -> anyhow::Result<Vec<AuditEvent>> {
        let log = self.whole_lines(*mark)?;
        *mark += u64::try_from(log.len())?;
        audit::parse(&String::from_utf8(log)?)
    }

    /// The end of the audit log as it is now.
    pub fn audit_mark(&self) -> anyhow::Result<u64> {
        /// More than the longest line.
        const TAIL: u64 = 1 << 20;
        let log = fs::metadata(self.folder().join(AUDIT_LOG));
        let length = log.context("failed to look at the audit log")?.len();
        let from = length.saturating_sub(TAIL);
        Ok(from + u64::try_from(self.whole_lines(from)?.len())?)
    }

    /// The audit log from this byte on, without a last line that is being written.
    fn whole_lines(&self, from: u64) -> anyhow::Result<Vec<u8>> {
        let mut log = Vec::new();
        File::open(self.folder().join(AUDIT_LOG))
            .and_then(|mut file| {
                file.seek(SeekFrom::Start(from))?;
                file.read_to_end(&mut log)
            })
            .context("failed to read the audit log")?;
        let end = log.iter().rposition(|byte| *byte == b'\n');
        log.truncate(end.map_or(0, |end| end + 1));
        Ok(log)
    }

    /// Kills the API server and returns when it is gone. Its data stay in etcd.
    pub fn kill_api_server(&self) -> anyhow::Result<()> {
        lock(&self.api_server).kill()
    }

    /// Starts the API server again, on the same port and with the same data, and waits until it is ready.
    pub async fn restart_api_server(&self) -> anyhow::Result<()> {
        lock(&self.api_server).restart()?;
        self.wait_until_ready(Instant::now() + START_LIMIT).await
    }

    /// Stops the API server in its tracks: connections stay open and nobody answers.
    pub fn pause_api_server(&self) -> anyhow::Result<()> {
        lock(&self.api_server).pause()
    }

    /// Lets a paused API server go on.
    pub fn resume_api_server(&self) -> anyhow::Result<()> {
        lock(&self.api_server).signal("CONT")
    }

    /// Stops all servers in their tracks. They use no CPU until [`Self::resume`], and nothing happens in the cluster.
    pub(crate) fn pause(&self) -> anyhow::Result<()> {
        for server in [&self.controller_manager, &self.api_server, &self.etcd] {
            lock(server).signal("STOP")?;
        }
        Ok(())
    }

    /// Lets all servers go on that were paused. Fails if one has ended.
    pub(crate) fn resume(&self) -> anyhow::Result<()> {
        for server in [&self.etcd, &self.api_server, &self.controller_manager] {
            let mut server = lock(server);
            server.require_running()?;
            server.signal("CONT")?;
        }
        Ok(())
    }

    /// Kills all servers and removes their folder; the same as dropping it.
    pub fn stop(self) {
        drop(self);
    }
}

fn require_name(name: &str) -> anyhow::Result<()> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    ensure!(
        !name.is_empty() && name.chars().all(plain),
        "not a name for a control plane: `{name}`"
    );
    Ok(())
}

/// The configuration of an administrator's client, read back from the file that others use.
async fn client_config(kubeconfig: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    config.default_retry = false;
    Ok(config)
}

async fn get(client: &Client, path: &str) -> anyhow::Result<String> {
    Ok(client
        .request_text(http::Request::get(path).body(Vec::new())?)
        .await?)
}

/// Waits until etcd's log says that it serves. The API server must not connect to another etcd that has taken the port:
/// ours then ends, or has not said yet that it serves.
async fn wait_for_etcd(etcd: &mut Server, deadline: Instant) -> anyhow::Result<()> {
    let mut look = || {
        if let Err(ended) = etcd.require_running() {
            return Ok(Some(Err(ended)));
        }
        let log = fs::read_to_string(etcd.log()).unwrap_or_default();
        Ok(log
            .contains("ready to serve client requests")
            .then_some(Ok(())))
    };
    let outcome = eventually("etcd", deadline - Instant::now(), || ready(look())).await;
    outcome.map_err(|error| etcd.explain(&format!("{error:#}")))?
}

/// A panic in another test is no reason to fail here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[tokio::test]
    async fn start_on_a_taken_port_is_reported() {
        let assets = Assets::locate().unwrap();
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let free = Ports::free().unwrap();
        for ports in [
            Ports { etcd: port, ..free },
            Ports {
                etcd_peer: port,
                ..free
            },
            Ports {
                api_server: port,
                ..free
            },
        ] {
            let started = ControlPlane::try_start("taken", &assets, ports, ClusterIps::Nowhere);
            let Err(error) = started.await else {
                panic!("it started on {ports:?}")
            };
            assert!(error.to_string().contains(BIND_FAILED), "{error}");
        }
    }
}
