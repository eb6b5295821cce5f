//! `linkerd-mc unlink`: prints or deletes the objects that link a cluster to this one.

use std::{
    io::{BufRead, IsTerminal as _},
    time::{Duration, Instant},
};

use clap::Args;
use clap_complete::ArgValueCompleter;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::{
    args::{self, Global, Output},
    cluster::{Cluster, block_on},
    complete,
    inventory::delete,
    linked::{Linked, Mirrors, known_clusters, links},
    output,
    progress::spin,
    rotate::link_id,
};
use crate::{
    api::labels,
    client::account_namespace,
    hint::fail,
    manifests::{
        identity::{self, Identity},
        link::ClusterName,
    },
};

const EXAMPLES: &str = "\
Examples:
  # Delete the link to east, and wait until its mirrors are removed
  linkerd-mc unlink --cluster-name east --apply

  # List the objects, and delete them with kubectl
  linkerd-mc unlink --cluster-name east
  linkerd-mc unlink --cluster-name east \\
    | kubectl delete --ignore-not-found -f -

  # Delete only the objects of Linkerd's service mirror
  linkerd-mc unlink --cluster-name east --only-controller \\
    | kubectl delete -f -";

/// Poll interval while mirrors are removed.
const RETRY: Duration = Duration::from_millis(500);
/// Time in which Linkerd sees that no Service names the cluster any more, before its credentials are deleted.
pub(super) const SEEN: Duration = Duration::from_secs(2);

/// Print the objects that link a cluster to this one, or delete them with --apply
///
/// The objects are the Link, those of Linkerd's service mirror for this link, the probe Service, all mirrors, federated
/// Services without another member, and both Secrets. The Secrets are last: Linkerd needs the Secret of a cluster when
/// a Service stops naming the cluster, and otherwise keeps its endpoints forever. So without --apply, they are left out
/// while federated Services with other members name the cluster. Linkerd's Secret stays if a Link in another namespace
/// needs it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Unlink {
    /// Name of the target cluster
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::clusters))]
    cluster_name: ClusterName,
    /// Namespace of the Link
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
    /// Only the objects of Linkerd's service mirror for this link
    #[arg(long)]
    only_controller: bool,
    /// Delete the link, and wait until the controller has removed the mirrors
    #[arg(long)]
    apply: bool,
    /// With --apply, do not ask for confirmation
    #[arg(long, requires = "apply")]
    yes: bool,
    /// With --apply, how long to wait until the mirrors are removed
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration, requires = "apply")]
    wait: Duration,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Unlink) -> anyhow::Result<()> {
    block_on(unlink(global, args))
}

async fn unlink(global: &Global, args: &Unlink) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&global.access()).await?;
    let mut linked = Box::pin(Linked::gather(
        &cluster,
        &args.cluster_name,
        &args.namespace,
        &global.linkerd_namespace,
    ))
    .await?;
    if args.only_controller {
        linked = Linked {
            leftovers: linked.leftovers,
            ..Default::default()
        };
    }
    if linked.is_empty() {
        return Err(nothing_there(&cluster, args).await);
    }
    if args.apply {
        return Box::pin(apply(&cluster, args, linked)).await;
    }
    let notes = [
        memberships(&args.cluster_name, &linked.mirrors.shared),
        kept_secret(&linked.elsewhere),
        revocation(&cluster, args, &linked).await,
    ];
    if !linked.mirrors.shared.is_empty() {
        linked.secrets.clear();
    } else if linked.links.is_empty() && !linked.secrets.is_empty() {
        // The memberships may have been removed a moment ago.
        tokio::time::sleep(SEEN).await;
    }
    let printed = args.output.format(&identity::manifest(linked.all())?);
    for note in notes.into_iter().flatten() {
        output::note(&note);
    }
    output::data(&printed)
}

/// Names in a note; more are only counted.
const NAMED: usize = 3;

/// A note for printed objects without Secrets: Linkerd needs them until the controller has removed the cluster from
/// these federated Services. It does that when the Link is gone, and `kubectl delete` does not wait for it.
fn memberships(cluster: &ClusterName, shared: &[Identity]) -> Option<String> {
    if shared.is_empty() {
        return None;
    }
    let named: Vec<String> = shared
        .iter()
        .take(NAMED)
        .map(|service| {
            let namespace = service.namespace.as_deref().unwrap_or_default();
            format!("{namespace}/{}", service.name)
        })
        .collect();
    let more = match shared.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "note: the Secrets are left out, because Linkerd needs them until {cluster} is removed from {} with other members \
         ({}{more}); the controller does that after the Link is deleted. Run this again afterwards to get the Secrets; \
         `unlink --apply` does all of it",
        counted(shared.len(), "federated Service"),
        named.join(", "),
    ))
}

/// A note if Linkerd's Secret stays.
fn kept_secret(elsewhere: &[String]) -> Option<String> {
    let other = elsewhere.first()?;
    Some(format!(
        "note: Linkerd's Secret for this cluster stays, because the Link {other} needs it"
    ))
}

/// A note with the command that revokes the tokens of this link in the target cluster; `None` if the credentials or the
/// namespace kube-system cannot be read.
async fn revocation(cluster: &Cluster, args: &Unlink, linked: &Linked) -> Option<String> {
    let (name, namespace) = (&args.cluster_name, &args.namespace);
    let own = linked
        .secrets
        .iter()
        .find(|secret| secret.namespace.as_ref() == Some(namespace))?;
    let secrets = Api::<Secret>::namespaced(cluster.client.clone(), namespace);
    let read = cluster.request("read the credentials", secrets.get(&own.name));
    let kubeconfig = read.await.ok()?.data?.remove(labels::KUBECONFIG_KEY)?;
    let account = account_namespace(&kubeconfig.0)?;
    let id = link_id(cluster, namespace, &name.to_string()).await.ok()?;
    let first = linked.elsewhere.first().and_then(|other| {
        let (namespace, _) = other.split_once('/')?;
        Some(format!(
            " run `linkerd-mc rotate --namespace {namespace} --cluster-name {name}`, because Linkerd's Secret may hold one \
             of them;"
        ))
    });
    Some(format!(
        "note: tokens that `linkerd-mc rotate` created for this link stay valid in {name};{} once the link is deleted, \
         revoke them with `kubectl --context {name} -n {account} delete secret -l {}={id}`",
        first.unwrap_or_default(),
        labels::TOKEN_OF_LINK
    ))
}

async fn apply(cluster: &Cluster, args: &Unlink, linked: Linked) -> anyhow::Result<()> {
    let name = &args.cluster_name;
    if !args.yes && !confirmed(&question(name, &linked.mirrors))? {
        return Err(fail(
            "canceled: nothing was deleted",
            "pass --yes to delete without confirmation",
        ));
    }
    let had_link = !linked.links.is_empty();
    // Needs the credentials, which are deleted below.
    let revocation = revocation(cluster, args, &linked).await;
    // The Link first: while it exists, the controller creates again what is deleted.
    for object in linked.links.iter().chain(&linked.leftovers) {
        delete(cluster, object).await?;
    }
    if args.only_controller {
        return Ok(());
    }
    // Without a Link, the controller does not remove these mirrors.
    if !had_link {
        for object in linked.mirrors.into_own() {
            delete(cluster, &object).await?;
        }
    }
    let waiting = format!("waiting for the mirrors of {name} to be removed");
    let left = spin(
        &waiting,
        mirrors_left(cluster, name, &args.namespace, args.wait),
    )
    .await?;
    if left > 0 {
        return Err(fail(
            format!(
                "{} of {name} still {}",
                counted(left, "mirror"),
                if left == 1 { "exists" } else { "exist" }
            ),
            format!(
                "check that the controller is running, or delete them with `linkerd-mc unlink --cluster-name {name} | \
                 kubectl delete -f -`; the Secrets were not deleted"
            ),
        ));
    }
    if !linked.secrets.is_empty() {
        tokio::time::sleep(SEEN).await;
    }
    for secret in &linked.secrets {
        delete(cluster, secret).await?;
    }
    output::note(&format!("deleted the link to {name} and its mirrors"));
    for note in [kept_secret(&linked.elsewhere), revocation]
        .into_iter()
        .flatten()
    {
        output::note(&note);
    }
    Ok(())
}

/// The confirmation prompt, with the numbers of Services that will be removed.
fn question(name: &ClusterName, mirrors: &Mirrors) -> String {
    let (own, federated, shared) = (&mirrors.own, &mirrors.federated, &mirrors.shared);
    let mut losses = Vec::new();
    if !own.is_empty() {
        losses.push(counted(own.len(), "mirror"));
    }
    if !federated.is_empty() {
        let services = counted(federated.len(), "federated Service");
        losses.push(format!("{services} without another member"));
    }
    if !shared.is_empty() {
        let services = counted(shared.len(), "federated Service");
        losses.push(format!("its membership in {services}"));
    }
    if losses.is_empty() {
        return format!("Delete the link to {name}?");
    }
    format!(
        "Delete the link to {name}, and with it {}?",
        losses.join(", ")
    )
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Waits until no mirror is left, at most for `wait`. Returns how many are.
async fn mirrors_left(
    cluster: &Cluster,
    name: &ClusterName,
    namespace: &str,
    wait: Duration,
) -> anyhow::Result<usize> {
    let started = Instant::now();
    loop {
        let left = Box::pin(Mirrors::gather(cluster, name, namespace))
            .await?
            .len();
        if left == 0 || started.elapsed() >= wait {
            return Ok(left);
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn nothing_there(cluster: &Cluster, args: &Unlink) -> anyhow::Error {
    let known = links(cluster, &args.namespace).await.unwrap_or_default();
    let name = args.cluster_name.to_string();
    let is_linked = known
        .iter()
        .any(|link| link.spec.target_cluster_name == name);
    if args.only_controller && is_linked {
        return fail(
            format!(
                "namespace {:?} has no objects of Linkerd's service mirror for cluster {name:?}",
                args.namespace
            ),
            "nothing has to be removed; the Link and its mirrors stay",
        );
    }
    let hint = known_clusters(&known, "choose another namespace with --namespace");
    fail(
        format!(
            "cluster {name:?} is not linked to namespace {:?}",
            args.namespace
        ),
        hint,
    )
}

/// Asks for confirmation. Fails if stdin or stderr is not a terminal.
fn confirmed(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(fail(
            "cannot prompt for confirmation: stdin or stderr is not a terminal",
            "pass --yes to delete without confirmation",
        ));
    }
    output::prompt(&format!("{question} [y/N]:"));
    Ok(is_yes(&mut std::io::stdin().lock())?)
}

/// Whether the next line is a yes. The end of the input, as after Ctrl-D, is a no.
fn is_yes(input: &mut impl BufRead) -> std::io::Result<bool> {
    let mut answer = String::new();
    if input.read_line(&mut answer)? == 0 {
        output::note("");
    }
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::inventory::SERVICE;

    #[test]
    fn only_a_yes_confirms() {
        for (typed, expected) in [
            ("y\n", true),
            (" Yes\n", true),
            ("n\n", false),
            ("\n", false),
            ("", false),
            ("yesterday\ny\n", false),
        ] {
            assert_eq!(is_yes(&mut typed.as_bytes()).unwrap(), expected, "{typed}");
        }
    }

    #[test]
    fn note_about_memberships_names_at_most_three_services() {
        let name = "east".parse().unwrap();
        let note = |count: usize| {
            let services =
                (0..count).map(|n| SERVICE.named(Some("shop".into()), format!("web{n}")));
            memberships(&name, &services.collect::<Vec<_>>())
        };
        assert_eq!(note(0), None);
        for (count, expected) in [
            (
                1,
                "1 federated Service with other members (shop/web0); the controller",
            ),
            (
                5,
                "5 federated Services with other members (shop/web0, shop/web1, shop/web2 and 2 more); the controller",
            ),
        ] {
            let note = note(count).unwrap();
            assert!(note.contains(expected), "{note}");
        }
    }

    #[test]
    fn prompt_counts_the_services_that_will_be_removed() {
        let services = |count| vec![SERVICE.named(Some("shop".into()), "web".into()); count];
        let mirrors = |own, federated, shared| Mirrors {
            own: services(own),
            probes: services(1),
            federated: services(federated),
            shared: services(shared),
        };
        let name = "east".parse().unwrap();
        for (mirrors, expected) in [
            (mirrors(0, 0, 0), "Delete the link to east?"),
            (
                mirrors(1, 0, 0),
                "Delete the link to east, and with it 1 mirror?",
            ),
            (
                mirrors(3, 1, 2),
                "Delete the link to east, and with it 3 mirrors, 1 federated Service without another member, \
                 its membership in 2 federated Services?",
            ),
        ] {
            assert_eq!(question(&name, &mirrors), expected);
        }
    }
}
