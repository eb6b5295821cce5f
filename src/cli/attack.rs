//! `attack`: tries what somebody could do with a stolen token of the extension, without changing anything.

use std::{process::ExitCode, time::Duration};

use anstyle::{AnsiColor, Style};
use clap::Args;
use client::{Access, Cluster};
use hints::{hint::fail, prose::counted};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use mirror_core::api::text::one_line;
use observe::{
    attack::{AttackAnswer, Thief, ThiefKind, Tried, attack, thieves},
    clusters::access::may,
};
use serde::Serialize;

use super::common::{
    args::{Global, timeout},
    format::OutputFormat,
    output,
    wait::spin,
};

const EXAMPLES: &str = "\
Examples:
  # Try what a thief of each token could do in this cluster
  linkerd-mc attack

  # Fail in CI if something is open, with all answers as JSON
  linkerd-mc attack -o json";

/// Try what somebody could do with a stolen token, without changing anything
///
/// Impersonates the ServiceAccounts of the extension: that of the controller, and those with which other clusters read
/// this one. Sends what a thief would send: as dry runs, which RBAC and admission answer like the real requests, and
/// asks for no content of Secrets. You need the right to impersonate these accounts.
///
/// What a thief could do with the identity of a workload in the mesh is not tried; docs/security.md has that.
///
/// Exit codes: 0 nothing is open, 1 something is, or an answer is not known.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct AttackArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,
    /// Timeout of each request to the cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    request_timeout: Duration,
}

/// What was tried with one token; its JSON is documented output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AttackReport {
    #[serde(flatten)]
    thief: Thief,
    attempts: Vec<Tried>,
}

/// Runs the command.
pub async fn run(global: &Global, args: &AttackArgs) -> anyhow::Result<ExitCode> {
    let access = global.access();
    let name = access.context.clone().unwrap_or_default();
    let cluster = Cluster::new(&name, &access, args.request_timeout).await?;
    let found = thieves(&cluster).await;
    let found = found.map_err(|why| cluster.failed("list the ClusterRoleBindings", why))?;
    if found.is_empty() {
        return Err(fail(
            "the extension is not installed: no role is bound to an account of it",
            format!("install it with {}", cluster.install()),
        ));
    }
    let mut reports = Vec::new();
    for thief in found {
        may_impersonate(&cluster, &thief).await?;
        let access = Access {
            as_user: Some(thief.user()),
            as_groups: thief.groups(),
            ..access.clone()
        };
        let stolen = Cluster::new(&name, &access, args.request_timeout).await?;
        let trying = format!("trying as {}/{}", thief.namespace, thief.account);
        let attempts = spin(&trying, attack(&stolen.client, &thief)).await;
        reports.push(AttackReport { thief, attempts });
    }
    output::data(&args.output.of(&reports, || text(&reports))?)?;
    let attempts = || reports.iter().flat_map(|report| &report.attempts);
    let is_unknown = |tried: &Tried| matches!(tried.answer, AttackAnswer::Unknown(_));
    Ok(output::exit_code(
        attempts().any(|tried| tried.is_open() || is_unknown(tried)),
    ))
}

/// Fails if the user may not impersonate an account.
async fn may_impersonate(cluster: &Cluster, thief: &Thief) -> anyhow::Result<()> {
    let impersonate = ResourceAttributes {
        resource: Some("serviceaccounts".to_owned()),
        verb: Some("impersonate".to_owned()),
        namespace: Some(thief.namespace.clone()),
        name: Some(thief.account.clone()),
        ..ResourceAttributes::default()
    };
    let asked = may(&cluster.client, impersonate).await;
    if asked.map_err(|why| cluster.failed("ask for permissions", why))? {
        return Ok(());
    }
    Err(fail(
        format!(
            "you may not impersonate the ServiceAccount {}/{}",
            thief.namespace, thief.account
        ),
        "ask an administrator for the right to `impersonate` serviceaccounts and groups, or to run this",
    ))
}

fn text(reports: &[AttackReport]) -> String {
    let mut lines = Vec::new();
    for report in reports {
        let whose = match report.thief.kind {
            ThiefKind::Controller => "the controller",
            ThiefKind::RemoteAccess => "another cluster",
        };
        let Thief {
            namespace, account, ..
        } = &report.thief;
        lines.push(one_line(&format!(
            "With the token of {whose} ({namespace}/{account}):"
        )));
        lines.extend(report.attempts.iter().map(line));
        lines.push(String::new());
    }
    let attempts = || reports.iter().flat_map(|report| &report.attempts);
    let open = attempts().filter(|tried| tried.is_open()).count();
    let all = attempts().count();
    lines.push(match open {
        0 => format!("Nothing is open, of {}.", counted(all, "attempt")),
        open => format!(
            "{open} of {} should be refused and are not.",
            counted(all, "attempt")
        ),
    });
    lines.join("\n") + "\n"
}

fn line(tried: &Tried) -> String {
    let (mark, color, answer) = match (&tried.answer, tried.permitted_because) {
        (AttackAnswer::RefusedByRights, _) => ("√", AnsiColor::Green, "no right to it".to_owned()),
        (AttackAnswer::NothingThere, _) => ("√", AnsiColor::Green, "nothing there".to_owned()),
        (AttackAnswer::RefusedByAdmission(policy), _) => (
            "√",
            AnsiColor::Green,
            format!("refused by the policy {}", one_line(policy)),
        ),
        (AttackAnswer::Permitted, Some(why)) => {
            ("·", AnsiColor::Yellow, format!("permitted: {why}"))
        }
        (AttackAnswer::Permitted, None) => (
            "×",
            AnsiColor::Red,
            match tried.remedy {
                Some(remedy) => format!("PERMITTED: {remedy}"),
                None => "PERMITTED".to_owned(),
            },
        ),
        (AttackAnswer::Unknown(why), _) => (
            "?",
            AnsiColor::Yellow,
            format!("not known: {}", one_line(why)),
        ),
    };
    let style = Style::new().fg_color(Some(color.into()));
    format!("{style}{mark}{style:#} {}: {answer}", tried.attempt)
}
