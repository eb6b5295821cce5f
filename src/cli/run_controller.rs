//! `run-controller`: runs the controller, in a cluster or locally.

use std::{
    io::IsTerminal as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, ValueEnum, builder::PossibleValue};
use client::{ResponseLimits, multiplexed, server_address};
use controller::{
    ExportGateway, Options, Settings, Sockets, lease::LeaseSettings, run as run_controller,
};
use mirror_core::api::labels;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{EnvFilter, field::MakeExt as _, fmt::format::debug_fn};

use super::common::{
    args::{self, Global},
    interrupt::{INTERRUPTED, StopSignals},
    log_format,
    mirroring::{MIB, Mirroring},
    service_mirror::ServiceMirrorFlags,
};

/// Run the controller, which mirrors Services of all linked clusters into this one
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct RunController {
    /// Address of the endpoints /metrics, /ready, /live and /ping [default: 0.0.0.0:9999]
    #[arg(long, value_name = "IP:PORT")]
    admin_addr: Option<SocketAddr>,
    /// Maximum number of concurrent writes
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    max_in_flight_writes: u16,
    /// Maximum memory for the Services and EndpointSlices of all target clusters, in MiB; new ones beyond it are omitted
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..))]
    max_mib: u16,
    /// Maximum sustained rate of writes per second for each target cluster; the first sync is not limited
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    max_writes_per_link: u16,
    #[command(flatten)]
    pub mirroring: Mirroring,
    /// Probe gateways at this address instead of at their probe Services
    #[arg(long, value_name = "HOST:PORT")]
    probe_address: Option<String>,
    /// Deployment of the gateway, if it forwards only to namespaces with exported Services
    #[arg(long, value_name = "NAME", value_parser = args::object_name)]
    pub export_gateway: Option<String>,
    /// Permit other clusters only the exported Services of these namespaces, by policies of the gateway
    #[arg(long, requires = "export_gateway")]
    pub permit_exports: bool,
    /// Namespace of Linkerd in all clusters, a part of the identities that a Service is exported to
    #[arg(long, value_name = "NAMESPACE", default_value = labels::LINKERD_NAMESPACE, value_parser = args::namespace)]
    identity_namespace: String,
    /// Domain of this cluster's Services
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local", value_parser = args::object_name)]
    cluster_domain: String,
    /// Elect a leader with a Lease, so that only one replica writes
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// Name of this replica in the Lease [default: the host name and the process ID]
    #[arg(long, value_name = "NAME", env = "HOSTNAME", hide_env_values = true)]
    identity: Option<String>,
    /// How long the Lease is valid after a renewal
    #[arg(long, value_name = "DURATION", value_parser = args::duration, hide = true)]
    lease_duration: Option<Duration>,
    /// How long after its last renewal a leader stops
    #[arg(long, value_name = "DURATION", value_parser = args::duration, hide = true)]
    lease_renew_deadline: Option<Duration>,
    /// Interval between attempts to take or renew the Lease
    #[arg(long, value_name = "DURATION", value_parser = args::duration, hide = true)]
    lease_retry: Option<Duration>,
    /// Log level
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = LogLevel::Info)]
    log_level: LogLevel,
    /// Log format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Plain)]
    log_format: LogFormat,
    #[command(flatten)]
    pub service_mirror: ServiceMirrorFlags,
}

/// Default address of the admin server, with the port of Linkerd's service mirror.
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 9999);

const EXAMPLES: &str = "\
Examples:
  # Run locally against the cluster of a context, without leader election
  linkerd-mc --context west run-controller --leader-elect=false \\
    --admin-addr 127.0.0.1:9999

In a cluster, the Deployment of `linkerd-mc install` runs this command.";

/// Log levels of Linkerd's controllers. Those above `error` mean `error`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogLevel {
    #[value(aliases = ["panic", "fatal"])]
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Plain,
    Json,
}

/// Number of threads of the sessions, which parse what target clusters send.
const SESSION_THREADS: usize = 4;

/// Runs the command.
pub fn run(global: &Global, args: &RunController) -> anyhow::Result<()> {
    log(args);
    for warning in args.service_mirror.warnings() {
        tracing::warn!("{warning}");
    }
    let failed = "failed to start the async runtime";
    // One thread: the engine is one task, and the rest is I/O. More threads would only use more memory.
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context(failed)?;
    // A hostile cluster can keep a session's thread busy for milliseconds. Others find a free one, even when several do,
    // and the operating system shares the CPUs fairly among the busy ones.
    let sessions = Builder::new_multi_thread()
        .worker_threads(SESSION_THREADS)
        .thread_name("sessions")
        .enable_all()
        .build()
        .context(failed)?;
    let settings = settings(args, sessions.handle().clone())?;
    let access = global.access();
    let ended = runtime.block_on(async {
        let stop = CancellationToken::new();
        stop_on_signals(stop.clone())?;
        let config = access.config()?;
        let server = server_address(&config);
        let client = multiplexed(config, settings.pages.of_local()).await?;
        let export_gateway = args.export_gateway.clone().map(|deployment| ExportGateway {
            namespace: args.mirroring.namespace.clone(),
            deployment,
            domain: args.cluster_domain.clone(),
            linkerd_namespace: args.identity_namespace.clone(),
            permits: args.permit_exports,
            protected: settings.config.protected_namespaces.clone(),
        });
        let lease = args.leader_elect.then(|| lease(args));
        let options = Options {
            settings,
            admin: args
                .admin_addr
                .or_else(|| args.service_mirror.admin_addr())
                .unwrap_or(ADMIN),
            server,
            export_gateway,
            lease,
            commit: env!("LINKERD_MC_BUILD_COMMIT"),
        };
        let tls = if cfg!(feature = "fips") {
            "AWS-LC FIPS"
        } else {
            "ring"
        };
        tracing::info!(version = env!("CARGO_PKG_VERSION"), tls, "starting");
        let ended = Box::pin(run_controller(client, options, stop)).await;
        tracing::info!("stopped");
        ended
    });
    sessions.shutdown_background();
    // Does not wait for lookups that hang in the system's resolver.
    runtime.shutdown_timeout(Duration::from_millis(100));
    ended
}

/// The lease, with the times of [`LeaseSettings::new`] unless flags say otherwise.
fn lease(args: &RunController) -> LeaseSettings {
    let identity = args.identity.clone().unwrap_or_else(host_name);
    let usual = LeaseSettings::new(&args.mirroring.namespace, identity);
    LeaseSettings {
        duration: args.lease_duration.unwrap_or(usual.duration),
        renew_deadline: args.lease_renew_deadline.unwrap_or(usual.renew_deadline),
        retry: args.lease_retry.unwrap_or(usual.retry),
        ..usual
    }
}

fn settings(args: &RunController, sessions: Handle) -> anyhow::Result<Settings> {
    Ok(Settings {
        config: args.mirroring.config()?,
        headless: args.mirroring.headless(),
        max_in_flight: args.max_in_flight_writes.into(),
        limits: args.mirroring.limits(),
        writes_each_second: args.max_writes_per_link.into(),
        bytes: MIB * usize::from(args.max_mib),
        pages: ResponseLimits::of_pages(),
        probe_address: args.probe_address.clone(),
        transport: Arc::new(Sockets),
        sessions,
    })
}

fn log(args: &RunController) {
    let level = args.log_level.to_possible_value();
    let level = level.as_ref().map_or("info", PossibleValue::get_name);
    // Libraries log nothing, because their callers log the errors. Only errors of kube-runtime are logged.
    let filter = EnvFilter::new(format!("off,{},kube_runtime=error", log_format::own(level)));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match args.log_format {
        LogFormat::Plain => builder
            .with_target(false)
            .fmt_fields(debug_fn(log_format::field).delimited(" "))
            .init(),
        LogFormat::Json => builder.event_format(log_format::Json).init(),
    }
}

/// SIGTERM and SIGINT stop the controller; another one after a second ends the process at once.
fn stop_on_signals(stop: CancellationToken) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    tokio::spawn(async move {
        signals.asked().await;
        tracing::info!("stopping");
        stop.cancel();
        signals.asked_again().await;
        #[expect(clippy::exit, reason = "the graceful shutdown takes too long")]
        std::process::exit(INTERRUPTED.into());
    });
    Ok(())
}

/// The host name, which in a pod is the pod's name, and the process ID.
fn host_name() -> String {
    let name = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let name = name.trim();
    let process = std::process::id();
    if name.is_empty() {
        format!("linkerd-mc-{process}")
    } else {
        format!("{name}-{process}")
    }
}
