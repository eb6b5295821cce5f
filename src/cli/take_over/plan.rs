//! What is to be done about what was found, and what is said about it. Pure.

use std::fmt;

use hints::{
    hint::fail,
    prose::counted,
    suggest::{ClusterFlags, Suggested},
};
use mirror_core::api::{
    labels as l, link::NO_ENDPOINT_SLICES, metadata::ResourceId, text::indented_line,
};
use observe::clusters::workloads::tag;

use super::found::{FormerLink, Found, Lead};

/// Something to do. The order of the variants is that of the steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOverStep {
    /// Take the Lease of linkerd-mc's controller.
    Reserve,
    /// Start linkerd-mc's controller, and wait until it is ready.
    Start,
    /// Scale a Deployment of Linkerd's to zero.
    Stop(String),
    /// Wait until Linkerd's Pods are gone.
    AwaitStopped,
    /// Release the Lease. From then on, linkerd-mc's controller writes.
    Release,
    /// Wait until all Links are ready.
    AwaitReady,
    /// Wait until linkerd-mc has adopted the mirrors.
    AwaitAdopted,
}

impl fmt::Display for TakeOverStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserve => "hold the Lease, so that linkerd-mc's controller waits",
            Self::Start => "start linkerd-mc's controller, and wait until it is ready",
            Self::Stop(name) => return write!(f, "scale the Deployment {name} to 0"),
            Self::AwaitStopped => "wait until the Pods of Linkerd's service mirror are gone",
            Self::Release => "release the Lease: linkerd-mc's controller takes over",
            Self::AwaitReady => "wait until all Links are ready",
            Self::AwaitAdopted => "wait until linkerd-mc has adopted all mirrors",
        })
    }
}

/// Fails if the take-over cannot work. Nothing was written then.
pub fn refuse(found: &Found, flags: &ClusterFlags) -> anyhow::Result<()> {
    let namespace = found.namespace.as_str();
    let Some(own) = &found.own else {
        return Err(fail(
            format!("linkerd-mc is not installed in namespace {namespace:?}"),
            format!(
                "install it without starting it, and with the values of your installation, as with {}",
                prepare(flags, namespace)
            ),
        ));
    };
    if !found.crd_lacks.is_empty() {
        let lacks = found.crd_lacks.join(", ");
        return Err(fail(
            format!("the CRD of Links is not that of linkerd-mc: it lacks {lacks}"),
            format!(
                "install linkerd-mc again with {}",
                prepare(flags, namespace)
            ),
        ));
    }
    if !found.reads_slices {
        let upgrade = flags.read_endpoint_slices();
        return Err(fail(
            NO_ENDPOINT_SLICES,
            format!("turn it on with {upgrade}"),
        ));
    }
    if found.links.is_empty() {
        return Err(fail(
            format!("namespace {namespace:?} has no Links"),
            "choose another namespace with --namespace",
        ));
    }
    let unusable = |link: &FormerLink| Some((link.name.clone(), link.problem.clone()?));
    if let Some((name, why)) = found.links.iter().find_map(unusable) {
        let edit = flags.kubectl(
            "-n {} edit links.multicluster.linkerd.io {}",
            &[namespace, &name],
        );
        return Err(fail(
            format!("linkerd-mc cannot use the Link {name}: {why}"),
            format!("correct it with {edit}, or delete it"),
        ));
    }
    let scale = || {
        flags.kubectl(
            "-n {} scale deployment {} --replicas=0",
            &[namespace, l::CONTROLLER_NAME],
        )
    };
    match &found.lead {
        Lead::Controller(holder) if own.desired == 0 => Err(fail(
            format!("{holder} holds the Lease {namespace}/{}", l::LEASE_NAME),
            "wait until it has expired, or stop the process that holds it",
        )),
        Lead::Reserved => Ok(()),
        _ if found.linkerds_runs() && own.desired > 0 => Err(fail(
            "linkerd-mc's controller runs beside Linkerd's service mirror, so both write the same mirrors",
            format!("stop it with {}, and run the same command again", scale()),
        )),
        _ => Ok(()),
    }
}

/// The command that installs linkerd-mc and does not start it.
fn prepare(flags: &ClusterFlags, namespace: &str) -> Suggested {
    let install = flags.mc(
        "install --set controller.replicas=0 --namespace {}",
        &[namespace],
    );
    install.piped(&flags.kubectl("apply -f -", &[]))
}

/// What remains to be done; nothing if linkerd-mc has taken over.
pub fn steps(found: &Found) -> Vec<TakeOverStep> {
    let mut steps = Vec::new();
    let own = found.own.as_ref();
    let (wanted, available) = own.map_or((0, 0), |own| (own.desired, own.available));
    let runs = found.linkerds_runs();
    let waits = found.lead == Lead::Reserved;
    if runs || waits || wanted == 0 {
        if !waits {
            steps.push(TakeOverStep::Reserve);
        }
        if wanted == 0 || available == 0 {
            steps.push(TakeOverStep::Start);
        }
        let running = found.programs.iter().filter(|program| program.desired > 0);
        steps.extend(running.map(|program| TakeOverStep::Stop(program.id.name.clone())));
        if runs {
            steps.push(TakeOverStep::AwaitStopped);
        }
        steps.push(TakeOverStep::Release);
    }
    let is_new = !steps.is_empty();
    if is_new || found.links.iter().any(|link| !link.is_ready) {
        steps.push(TakeOverStep::AwaitReady);
    }
    let waits = |mirror| !found.stays_foreign(mirror);
    let mut foreign = found.mirrors.iter().filter(|mirror| !mirror.is_ours);
    if is_new || foreign.any(waits) {
        steps.push(TakeOverStep::AwaitAdopted);
    }
    steps
}

/// What was found, what goes and what is to be done, in lines.
pub fn shown(found: &Found, steps: &[TakeOverStep]) -> String {
    let namespace = &found.namespace;
    let mut lines = vec![format!(
        "Linkerd's service mirror in namespace {namespace}:"
    )];
    for program in &found.programs {
        let of = match &program.cluster {
            Some(cluster) => format!("for {cluster}"),
            None => "for members in this cluster".to_owned(),
        };
        let version = program.images.first().and_then(|image| tag(image));
        let version = version.map(|tag| format!(", version {tag}"));
        let replicas = usize::try_from(program.desired).unwrap_or_default();
        lines.push(format!(
            "  {} {of}: {}{}",
            program.id.name,
            counted(replicas, "replica"),
            version.unwrap_or_default()
        ));
    }
    if found.programs.is_empty() {
        lines.push("  no Deployment".to_owned());
    }
    lines.push("Links:".to_owned());
    for link in &found.links {
        lines.extend(of_link(found, link));
    }
    let federated = found.mirrors.iter().filter(|m| m.cluster.is_none());
    match federated.count() {
        0 => {}
        count => lines.push(format!("  {}", counted(count, "federated Service"))),
    }
    for mirror in &found.mirrors {
        if found.stays_foreign(mirror) {
            lines.push(format!(
                "  will stay, and nothing updates it: {}",
                mirror.id
            ));
        }
    }
    if steps.is_empty() {
        lines.push("Nothing to do: linkerd-mc has taken over.".to_owned());
    } else {
        lines.push("Steps:".to_owned());
        let steps = steps.iter().enumerate();
        lines.extend(steps.map(|(at, step)| format!("  {}. {step}", at + 1)));
    }
    let lines = lines.iter().map(|line| indented_line(line) + "\n");
    lines.collect()
}

/// A Link, with what becomes of its mirrors.
fn of_link(found: &Found, link: &FormerLink) -> Vec<String> {
    let FormerLink { name, cluster, .. } = link;
    let own = found.mirrors.iter();
    let own = own.filter(|mirror| mirror.cluster.as_ref() == Some(cluster));
    let mirrors = counted(own.count(), "mirror");
    let mut lines = vec![format!("  {name} to {cluster}: {mirrors}")];
    let preview = match &link.preview {
        Ok(preview) => preview,
        Err(why) => {
            lines.push(format!("    which mirrors go is not known: {why}"));
            return lines;
        }
    };
    for mirror in &found.mirrors {
        let ResourceId { namespace, name } = &mirror.id;
        if preview.writes_service("delete", namespace, name) {
            lines.push(format!(
                "    will be deleted, with its ClusterIP: {}",
                mirror.id
            ));
        }
    }
    for problem in &preview.problems {
        lines.push(format!(
            "    will not be mirrored: {}: {}: {}",
            problem.service, problem.reason, problem.message
        ));
    }
    lines
}

/// What the user is asked.
pub fn question(found: &Found) -> String {
    let gone = found.mirrors.iter().filter(|mirror| found.goes(&mirror.id));
    let gone = match gone.count() {
        0 => String::new(),
        count => format!(", and delete {}", counted(count, "mirror")),
    };
    let kept = counted(found.mirrors.len(), "Service");
    format!("Take over {kept} from Linkerd's service mirror{gone}?")
}
