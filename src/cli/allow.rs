//! `linkerd-mc allow`: accounts for controllers of other clusters.

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use client::Cluster;
use hints::hint::fail;
use k8s_openapi::api::{
    core::v1::{Namespace, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{Resource, ResourceExt as _, api::PartialObjectMeta};
use links::inventory::SECRET;
use manifests::{
    install::{self, RemoteAccess},
    render::{Manifest, ObjectName},
};
use mirror_core::api::labels;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::common::{
    args::{self, Global, ManifestOutput},
    cluster::block_on,
    complete, output,
};

const EXAMPLES: &str = "\
Examples:
  # Create an account for the cluster west, and link with it
  linkerd-mc allow --service-account-name west | kubectl apply -f -
  linkerd-mc link-gen --cluster-name east --service-account-name west

  # Grant only what gateway mode needs
  linkerd-mc allow --service-account-name west --mode gateway \\
    | kubectl apply -f -

  # Revoke the access of one cluster
  linkerd-mc allow --service-account-name west --delete \\
    | kubectl delete --ignore-not-found -f -";

/// Print a ServiceAccount that another cluster can use to mirror from this one
///
/// `install` creates one account that all source clusters share. With one account for each source cluster, you can
/// revoke each of them separately: with --delete, the same objects are printed for `kubectl delete -f -`. Without the
/// account, its token is invalid, and clusters that use it lose access immediately.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Allow {
    #[command(flatten)]
    accounts: Accounts,
    /// Permissions of the account
    #[arg(long, value_name = "MODE", default_value = "full")]
    mode: AccountMode,
    /// Print the objects to delete them with `kubectl delete -f -`, and without the Namespace
    #[arg(long, conflicts_with = "mode")]
    delete: bool,
    /// Print even objects that exist, or with --delete that are not the extension's; do not contact the cluster
    #[arg(long)]
    ignore_cluster: bool,
    #[command(flatten)]
    output: ManifestOutput,
}

#[derive(Debug, Args)]
struct Accounts {
    /// Names of the ServiceAccounts, comma-separated
    #[arg(long, value_name = "NAME", required = true, value_delimiter = ',', value_parser = args::account_name)]
    service_account_name: Vec<String>,
    /// Namespace of the ServiceAccount
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
}

impl Accounts {
    /// Whether their namespace is the usual one of the extension. Our Namespace has labels that let Pods do more, and by
    /// which `uninstall` finds it: applied over a namespace of others, such as kube-system, it would change that one.
    fn are_in_usual_namespace(&self) -> bool {
        self.namespace == labels::MULTICLUSTER_NAMESPACE
    }
}

/// Permissions of an account.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum AccountMode {
    /// Read access for gateway mode
    Gateway,
    /// Read access for all modes, including remote discovery and federated Services
    Full,
}

/// Runs the command.
pub fn run(global: &Global, args: &Allow) -> anyhow::Result<()> {
    if args.delete {
        return delete(global, args);
    }
    let with_namespace = if args.ignore_cluster {
        args.accounts.are_in_usual_namespace()
    } else {
        block_on(lacks_namespace(global, &args.accounts))?
    };
    if with_namespace && args.accounts.namespace == global.linkerd_namespace {
        // It would get the label of what `uninstall` deletes.
        return Err(fail(
            format!("{:?} is Linkerd's namespace", args.accounts.namespace),
            "choose another one with --namespace",
        ));
    }
    let access = match args.mode {
        AccountMode::Gateway => RemoteAccess::Gateway,
        AccountMode::Full => RemoteAccess::Full,
    };
    let Accounts {
        service_account_name,
        namespace,
    } = &args.accounts;
    let manifest = install::allow(namespace, service_account_name, access, with_namespace)?;
    if args.ignore_cluster && !with_namespace {
        output::note(&format!(
            "the Namespace {namespace} is not printed, because it may exist; create it if it does not"
        ));
    }
    output::data(&args.output.format(&manifest)?)
}

/// Prints what revokes the access of the accounts.
fn delete(global: &Global, args: &Allow) -> anyhow::Result<()> {
    let Accounts {
        service_account_name,
        namespace,
    } = &args.accounts;
    let mut manifest = install::revoke(namespace, service_account_name)?;
    if !args.ignore_cluster {
        let objects = block_on(async {
            let cluster = Cluster::connect(&global.access()).await?;
            refuse_others(&cluster, service_account_name).await?;
            without_missing(&cluster, manifest.into_objects()?).await
        })?;
        manifest = Manifest::from_objects(objects)?;
    }
    output::data(&args.output.format(&manifest)?)
}

/// The objects without Secrets that do not exist, for which `kubectl delete` would fail: earlier versions made others, which
/// Kubernetes deletes with their account.
async fn without_missing(cluster: &Cluster, objects: Vec<Value>) -> anyhow::Result<Vec<Value>> {
    let mut found = Vec::new();
    for object in objects {
        let named = ObjectName::of(&object).filter(|named| named.kind == "Secret");
        let is_there = match &named {
            Some(named) => {
                let (namespace, names) = (named.namespace.as_deref(), [named.name.clone()]);
                !SECRET
                    .with_names(cluster, namespace, &names)
                    .await?
                    .is_empty()
            }
            None => true,
        };
        found.extend(is_there.then_some(object));
    }
    Ok(found)
}

/// Fails if somebody else has the name of an account for a `ClusterRole` or its binding, which kubectl would replace or
/// delete.
async fn refuse_others(cluster: &Cluster, accounts: &[String]) -> anyhow::Result<()> {
    for name in accounts {
        let kind = if is_of_others::<ClusterRole>(cluster, name).await? {
            "ClusterRole"
        } else if is_of_others::<ClusterRoleBinding>(cluster, name).await? {
            "ClusterRoleBinding"
        } else {
            continue;
        };
        return Err(fail(
            format!("the {kind} {name:?} is not one of the extension"),
            "choose another name for the account",
        ));
    }
    Ok(())
}

/// Whether an object of this name exists without the label of the extension.
async fn is_of_others<K>(cluster: &Cluster, name: &str) -> anyhow::Result<bool>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    PartialObjectMeta<K>: DeserializeOwned,
{
    let api = cluster.all::<K>();
    let what = format!("read the {}", K::kind(&()));
    let found = cluster.request(&what, api.get_metadata_opt(name)).await?;
    let names = [labels::EXTENSION_NAME, labels::EXTENSION_NAME_LEGACY];
    Ok(found.is_some_and(|found| {
        let label = found.labels().get(labels::EXTENSION);
        !label.is_some_and(|label| names.contains(&label.as_str()))
    }))
}

/// Whether the namespace has to be created. Fails if one of the ServiceAccounts exists, or if a `ClusterRole` or its
/// binding of somebody else has its name.
async fn lacks_namespace(global: &Global, accounts: &Accounts) -> anyhow::Result<bool> {
    let cluster = Cluster::connect(&global.access()).await?;
    refuse_others(&cluster, &accounts.service_account_name).await?;
    let api = cluster.api::<ServiceAccount>(&accounts.namespace);
    for name in &accounts.service_account_name {
        let found = cluster
            .request("read the ServiceAccount", api.get_metadata_opt(name))
            .await?;
        if found.is_some() {
            return Err(fail(
                format!(
                    "ServiceAccount {name:?} already exists in namespace {:?}",
                    accounts.namespace
                ),
                "choose another name, or pass --ignore-cluster to print it anyway",
            ));
        }
    }
    let namespaces = cluster.all::<Namespace>();
    let found = cluster
        .request(
            "read the Namespace",
            namespaces.get_metadata_opt(&accounts.namespace),
        )
        .await?;
    Ok(found.is_none())
}

#[cfg(test)]
mod tests {
    use client::of_test_server;
    use futures::{StreamExt as _, stream};
    use http::{Request, Response, StatusCode};
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use kube::client::Body;
    use serde_json::json;
    use tower::BoxError;

    use super::*;

    /// A cluster with roles of the extension, `peer` and `legacy`, and of others, and with the binding `bound` of others.
    fn cluster() -> Cluster {
        let server = |request: Request<Body>| {
            let name = request.uri().path().rsplit('/').next().unwrap().to_owned();
            let is_role = request.uri().path().contains("/clusterroles/");
            let label = match (name.as_str(), is_role) {
                ("peer", _) => Some(Some(labels::EXTENSION_NAME)),
                ("legacy", _) => Some(Some(labels::EXTENSION_NAME_LEGACY)),
                ("theirs", true) | ("bound", false) => Some(None),
                ("labelled", true) => Some(Some("viz")),
                _ => None,
            };
            let (status, body) = match label {
                Some(label) => {
                    let labels = json!({ labels::EXTENSION: label });
                    let labels = if label.is_some() { labels } else { json!({}) };
                    let metadata = json!({ "name": name, "labels": labels });
                    let kind = "PartialObjectMetadata";
                    let version = "meta.k8s.io/v1";
                    let body = json!({ "kind": kind, "apiVersion": version, "metadata": metadata });
                    (StatusCode::OK, body)
                }
                None => (
                    StatusCode::NOT_FOUND,
                    json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404 }),
                ),
            };
            let body = Bytes::from(body.to_string());
            let body = StreamBody::new(stream::iter([Ok(Frame::data(body))]).boxed());
            let response = Response::builder().status(status).body(body).unwrap();
            async { Ok::<_, BoxError>(response) }
        };
        Cluster::of_test_server(of_test_server(server))
    }

    #[tokio::test]
    async fn names_of_roles_that_others_have_are_refused() {
        let cluster = cluster();
        for (names, expected) in [
            (&["peer", "legacy", "new"][..], None),
            (
                &["new", "theirs"],
                Some("the ClusterRole \"theirs\" is not one of the extension"),
            ),
            (
                &["labelled"],
                Some("the ClusterRole \"labelled\" is not one of the extension"),
            ),
            (
                &["bound"],
                Some("the ClusterRoleBinding \"bound\" is not one of the extension"),
            ),
        ] {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let refused = refuse_others(&cluster, &names).await.err();
            let said = refused.map(|error| format!("{error:#}"));
            let matches = match (&said, expected) {
                (Some(said), Some(expected)) => said.starts_with(expected),
                (None, None) => true,
                _ => false,
            };
            assert!(matches, "{names:?}: {said:?}");
        }
    }
}
