//! Controllers that run as real processes.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use control_plane::{ControlPlane, eventually};

use crate::support::{
    SOON,
    gateways::Gateways,
    installation::{CONTROLLER, CONTROLLER_GROUPS},
};

/// A controller process. It ends when this is dropped.
pub(crate) struct Controller {
    child: Child,
    admin: String,
    log: Arc<Mutex<String>>,
}

impl Controller {
    /// Starts a controller on `plane`, without leader election, and waits until its admin server listens.
    pub(crate) fn start(plane: &ControlPlane, flags: &[&str]) -> Self {
        Self::start_through(plane, plane.url(), flags)
    }

    /// Like [`Self::start`], but the controller connects to its API server at this address.
    pub(crate) fn start_through(plane: &ControlPlane, url: &str, flags: &[&str]) -> Self {
        let args = [&["--leader-elect=false"], flags].concat();
        let kubeconfig = plane
            .kubeconfig_through(url, CONTROLLER, &CONTROLLER_GROUPS)
            .unwrap();
        Self::start_as(&kubeconfig, &args)
    }

    /// Starts a controller with this kubeconfig and these flags. Unless the flags set an address, it probes a stand-in
    /// that always answers, because the `ClusterIP`s of a control plane are not reachable on this machine.
    pub(crate) fn start_as(kubeconfig: &Path, flags: &[&str]) -> Self {
        static GATEWAYS: OnceLock<String> = OnceLock::new();
        let gateways = GATEWAYS.get_or_init(|| Gateways::start().address());
        let stand_in = ["--probe-address", gateways];
        let probed = flags.iter().any(|flag| flag.starts_with(stand_in[0]));
        let stand_in = if probed { &[][..] } else { &stand_in[..] };
        Self::start_probing(kubeconfig, &[stand_in, flags].concat())
    }

    /// Like [`Self::start_as`], but the controller probes gateways at their probe Services.
    pub(crate) fn start_probing(kubeconfig: &Path, flags: &[&str]) -> Self {
        let own = ["run-controller", "--admin-addr", "127.0.0.1:0"];
        // There is no Linkerd that could be too slow.
        let mut defaults = vec!["--log-level=debug", "--join-delay=0s"];
        defaults.retain(|default| {
            let (name, _) = default.split_once('=').unwrap();
            !flags.iter().any(|flag| flag.starts_with(name))
        });
        Self::spawn(kubeconfig, &[&own, &defaults[..], flags].concat())
    }

    /// Starts a controller with this kubeconfig and this command line.
    pub(crate) fn spawn(kubeconfig: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"));
        command.args(args).env("KUBECONFIG", kubeconfig);
        Self::of(command)
    }

    /// Starts a controller by this command.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::new(Mutex::new(String::new()));
        let admin = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                log.lock().unwrap().extend([line.as_str(), "\n"]);
                let (_, address) = line.split_once("admin server address=")?;
                Some(address.trim().to_owned())
            })
            .unwrap_or_else(|| panic!("the controller has ended: {}", log.lock().unwrap()));
        let sink = log.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                sink.lock().unwrap().extend([line.as_str(), "\n"]);
            }
        });
        Self { child, admin, log }
    }

    /// Everything that it has logged.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The response of its admin server: status and body.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<(u16, String)> {
        use http_body_util::{BodyExt as _, Empty};
        use hyper_util::{client::legacy::Client, rt::TokioExecutor};
        let client: Client<_, Empty<hyper::body::Bytes>> =
            Client::builder(TokioExecutor::new()).build_http();
        let answer = client
            .get(format!("http://{}{path}", self.admin).parse()?)
            .await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8(body.to_vec())?))
    }

    /// Waits until it has listed the local cluster.
    pub(crate) async fn ready_within(&self, time: Duration) {
        eventually("the controller to be ready", time, async || {
            Ok((self.get("/ready").await?.0 == 200).then_some(()))
        })
        .await
        .unwrap();
    }

    /// Whether it has finished the first sync of a Link.
    pub(crate) fn is_in_step(&self) -> bool {
        self.log().contains("synced with the target cluster")
    }

    /// Waits until it has finished the first sync of a Link.
    pub(crate) async fn in_step_within(&self, time: Duration) {
        eventually("the controller to catch up", time, async || {
            Ok(self.is_in_step().then_some(()))
        })
        .await
        .unwrap();
    }

    /// The value of one of its metrics, by name and labels; `None` if it has no such series.
    pub(crate) async fn metric<T: std::str::FromStr>(
        &self,
        series: &str,
    ) -> anyhow::Result<Option<T>> {
        let (_, text) = self.get("/metrics").await?;
        let value = |line: &str| line.strip_prefix(series)?.trim().parse().ok();
        Ok(text.lines().find_map(value))
    }

    /// Waits until a metric has a value.
    pub(crate) async fn metric_is(&self, series: &str, is: impl Fn(Option<f64>) -> bool) {
        eventually(series, SOON, async || {
            Ok(is(self.metric(series).await?).then_some(()))
        })
        .await
        .unwrap();
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The peak of its resident memory, in MiB.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        peak.unwrap() / 1024
    }

    /// Sends SIGTERM and waits for the end. Returns the exit code and how long it took.
    pub(crate) fn terminate(&mut self) -> (Option<i32>, Duration) {
        let started = std::time::Instant::now();
        signal("TERM", self.pid());
        let status = self.child.wait().unwrap();
        (status.code(), started.elapsed())
    }

    /// Waits until it exits by itself. Returns the exit code, if it has one.
    pub(crate) fn ended(&mut self, limit: Duration) -> Option<i32> {
        let deadline = std::time::Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(std::time::Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(60).collect();
            eprintln!(
                "the last lines of the controller's log, newest first:\n{}",
                tail.join("\n")
            );
        }
    }
}

/// Sends a signal to a process of ours.
pub(crate) fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}
