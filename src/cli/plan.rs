//! `linkerd-mc plan`: shows what the controller would write for Links. Uses the same core, and writes nothing.

mod changes;
pub mod losses;
mod text;

use std::{collections::BTreeMap, io::Read as _, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::{ArgMatches, Args};
use clap_complete::ArgValueCompleter;
use client::{kubeconfig_in, requests::DEADLINE};
use controller::preview::{self, PreviewOf, PreviewSettings, Proposed};
use hints::hint::{fail, misuse};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt, api::ListParams};
use links::link::handed::check_credentials;
use manifests::yaml;
use mirror_core::{
    api::{
        link::{Link, LinkObject},
        text::one_line,
    },
    mirror::{self, Confirmed, Local, Object, ObjectKind, Outcome, State, Write},
};
use observe::clusters::misspelled::{misspelled, service_labels};
use serde_json::{Value, json};

use self::changes::PlanOfLink;
use self::changes::flatten;
pub use self::changes::{PlanProblem, PlannedChange, Preview};
use super::common::{
    args::{self, Global},
    complete,
    format::OutputFormat,
    mirroring::{Mirroring, Parse},
    output,
    wait::spin,
};

/// Examples for the end of the help text.
const EXAMPLES: &str = "\
Examples:
  # Show what would change for all Links
  linkerd-mc --context west plan

  # Show what would change for the Link to east
  linkerd-mc --context west plan east

  # Show each object with the fields that change
  linkerd-mc --context west plan east --diff

  # Show what would change if a new Link were applied
  linkerd-mc --context east link-gen --cluster-name east \\
    | linkerd-mc --context west plan --link-file -

  # Read east as yourself, if only the controller reaches its API server
  linkerd-mc --context west plan east --target east

Exit codes: 0 no changes, 1 failed, 2 changes (or invalid usage).";

/// Exit code if there are changes, as for `terraform plan -detailed-exitcode`.
const PENDING: u8 = 2;

/// Show what the controller would create, change and delete for Links
///
/// Reads both clusters of each Link and writes nothing. Settings are those of the running controller, as in its
/// Deployment; flags override them.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct PlanArgs {
    /// Name of the Link [default: all Links]
    #[arg(value_name = "LINK", value_parser = args::object_name, add = ArgValueCompleter::new(complete::links))]
    link: Option<String>,
    /// Output of link-gen for a Link that is not applied yet; - for stdin
    #[arg(long, value_name = "FILE", conflicts_with = "link")]
    link_file: Option<PathBuf>,
    /// Context of the target cluster, to read it as yourself and not with the Link's credentials: for example if only
    /// the controller reaches its API server
    #[arg(long, value_name = "CONTEXT", add = ArgValueCompleter::new(complete::contexts))]
    target: Option<String>,
    #[command(flatten)]
    mirroring: Mirroring,
    /// Timeout of each request
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = args::timeout)]
    request_timeout: Duration,
    /// Print each object with the fields that change
    #[arg(long, conflicts_with = "output")]
    diff: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,
}

/// Runs the command. `given` are its flags as clap has them, and `parse` reads those of the running controller.
pub async fn run(
    global: &Global,
    args: &PlanArgs,
    given: &ArgMatches,
    parse: Parse,
) -> anyhow::Result<ExitCode> {
    let mut proposed = args.link_file.as_ref().map(read).transpose()?;
    let named = match &proposed {
        Some(proposed) => Some(proposed.link.name_any()),
        None => args.link.clone(),
    };
    if named.is_none() && args.target.is_some() {
        return Err(misuse(
            "--target is the cluster of one Link",
            "name the Link, or remove --target",
        ));
    }
    let access = global.access();
    let client = access.client(args.request_timeout).await?;
    let mirroring = args
        .mirroring
        .over_deployment(given, &client, parse)
        .await?;
    let check = access.flags().mc("check", &[]);
    let unreadable = format!("check its credentials with {check}");
    let there = match &args.target {
        Some(context) => {
            let access = access.with_context(context);
            Some(access.client(args.request_timeout).await?)
        }
        None => None,
    };
    let is_one = named.is_some();
    let names = match named {
        Some(name) => vec![name],
        None => names_of_links(&client, &mirroring).await?,
    };
    let mut planned = Vec::new();
    let mut has_failed = false;
    for link in names {
        let settings = mirroring.of_preview(unreadable.clone())?;
        let (proposed, there) = (proposed.take(), there.clone());
        let reading = read_one(
            &client,
            settings,
            &link,
            proposed,
            there,
            args.request_timeout,
        );
        match spin("reading both clusters", Box::pin(reading)).await {
            Ok(preview) => planned.push(PlanOfLink { link, preview }),
            Err(error) if is_one => return Err(error),
            Err(error) => {
                output::error(&error.context(link));
                has_failed = true;
            }
        }
    }
    let text = if args.diff { text::diff } else { text::short };
    let has_changes = planned.iter().any(|plan| !plan.preview.changes.is_empty());
    match planned.as_slice() {
        [only] if is_one => {
            output::data(&args.output.of(&only.preview, || text(&only.preview))?)?;
        }
        _ => output::data(&args.output.of(&planned, || text::of_all(&planned, text))?)?,
    }
    Ok(match (has_failed, has_changes) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::from(PENDING),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// The names of all Links in the namespace of the controller.
async fn names_of_links(client: &Client, mirroring: &Mirroring) -> anyhow::Result<Vec<String>> {
    let namespace = &mirroring.namespace;
    let links: Api<LinkObject> = Api::namespaced(client.clone(), namespace);
    let links = links.list_metadata(&ListParams::default()).await;
    let links = links.context("cannot list Links")?;
    if links.items.is_empty() {
        return Err(fail(
            format!("no Links in namespace {namespace}"),
            "preview a Link that is not applied yet with --link-file",
        ));
    }
    Ok(links.iter().map(ResourceExt::name_any).collect())
}

/// What would be written for one Link, after a note on what looks misspelled.
async fn read_one(
    client: &Client,
    settings: PreviewSettings,
    name: &str,
    proposed: Option<Proposed>,
    there: Option<Client>,
    timeout: Duration,
) -> anyhow::Result<Preview> {
    let state = preview::state(client, settings, name, proposed, there, timeout);
    let PreviewOf {
        mut state,
        link,
        there,
    } = Box::pin(state).await?;
    let labels = service_labels(&there).await;
    let found = labels.map_or_else(|_| Vec::new(), |labels| misspelled(&link, &labels));
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    output::warnings(&found);
    if let Some(holder) = duplicate_of(&state, name) {
        output::note(&format!(
            "the Link {name} does nothing while there is the older Link {holder}, which is for the same cluster"
        ));
        return Ok(Preview::default());
    }
    Ok(preview(&mut state, name))
}

/// Reads the output of `link-gen`. Errors do not quote it, because it has credentials.
pub fn read(file: &PathBuf) -> anyhow::Result<Proposed> {
    let mut text = String::new();
    if file.as_os_str() == "-" {
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read stdin")?;
    } else {
        text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
    }
    proposed(&text).map_err(|why| {
        fail(
            format!("{}: {}", file.display(), one_line(&why)),
            "pass the output of `link-gen`: two Secrets and a Link, and nothing else",
        )
    })
}

/// The Link of a file, and its credentials. Whoever wrote the file may be nobody to trust, and whoever reads the plan takes
/// it for all that the file does. So it has to have nothing else.
fn proposed(text: &str) -> Result<Proposed, String> {
    let documents = yaml::documents(text).map_err(|_| "invalid YAML")?;
    let (mut link, mut credentials) = (None, BTreeMap::new());
    // `kubectl get -o yaml` prints several objects as one list.
    let objects = documents.into_iter().flat_map(|mut document| {
        match document["kind"].as_str().filter(|kind| *kind == "List") {
            Some(_) => serde_json::from_value(document["items"].take()).unwrap_or_default(),
            None => vec![document],
        }
    });
    for document in objects.filter(|object: &Value| !object.is_null()) {
        let text = |path: &str| {
            let text = document.pointer(path).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        match kind.as_str() {
            "Link" if link.is_none() => {
                let decoded = serde_json::from_value::<Link>(document);
                link = Some(decoded.map_err(|error| format!("the Link is invalid: {error}"))?);
            }
            "Secret" => {
                let secret: Secret = serde_json::from_value(document)
                    .map_err(|_| format!("the Secret {name} is invalid"))?;
                check_credentials(&secret)?;
                if let Some(kubeconfig) = kubeconfig_in(&secret) {
                    // Linkerd's Secret has the same name, and comes after the controller's.
                    let kubeconfig = || kubeconfig.0.clone();
                    credentials
                        .entry(secret.name_any())
                        .or_insert_with(kubeconfig);
                }
            }
            "Link" => return Err(format!("the Link {name} is the second one")),
            _ => return Err(format!("it has the {kind:?} {name:?}")),
        }
    }
    let link = link.ok_or("no Link found")?;
    Ok(Proposed { link, credentials })
}

/// The Link that the controller uses instead of this one, which is for the same cluster.
fn duplicate_of<'s>(state: &'s State, link: &str) -> Option<&'s str> {
    let cluster = state.links.get(link)?.cluster.as_ref()?;
    state.links.holder(cluster).filter(|holder| *holder != link)
}

/// What the controller would write for a Link now. Reads the target cluster with the Link's credentials.
pub async fn preview_of(
    client: &Client,
    settings: PreviewSettings,
    link: &str,
) -> anyhow::Result<Preview> {
    let state = preview::state(client, settings, link, None, None, DEADLINE);
    Ok(preview(&mut Box::pin(state).await?.state, link))
}

/// Plans all keys of a Link in sequence, so that a namespace that one creates exists for the next.
fn preview(state: &mut State, link: &str) -> Preview {
    let mut preview = Preview::default();
    let cluster = state.links.get(link).and_then(|e| e.cluster.as_deref());
    let keys = cluster.map(|cluster| state.keys_of_cluster(cluster));
    for key in keys.unwrap_or_default() {
        let plan = mirror::plan(state, &key, Confirmed::All);
        preview
            .changes
            .extend(plan.writes.iter().map(|write| change(state, write)));
        if let Some((name, labels)) = plan.creates_namespace() {
            state.created_namespace(name, labels.clone());
        }
        for said in plan.report {
            if let Outcome::Failed(problem) = said.report {
                preview.problems.push(PlanProblem {
                    service: format!("{}/{}", said.remote.namespace, said.remote.service),
                    reason: problem.reason.as_str(),
                    message: problem.message,
                });
            }
        }
    }
    preview
}

/// The object that a patch changes.
fn before(local: &Local, kind: ObjectKind, namespace: &str, name: &str) -> Option<Value> {
    match kind {
        ObjectKind::EndpointSlice => {
            let mut stores = [&local.slices, &local.gateway_slices].into_iter();
            let slice = stores.find_map(|store| store.get(namespace, name))?;
            Some(json!(slice.as_ref()))
        }
        ObjectKind::Route(kind) => {
            let routes = local.routes.get(&kind)?.as_ref()?;
            Some(json!(routes.get(namespace, name)?.as_ref()))
        }
        ObjectKind::Service | ObjectKind::Namespace => {
            let mut stores = [&local.mirrors, &local.gateways].into_iter();
            let service = stores.find_map(|store| store.get(namespace, name))?;
            Some(json!(service.as_ref()))
        }
    }
}

fn change(state: &State, write: &Write) -> PlannedChange {
    let (verb, kind, namespace, name) = write.describe();
    let mut fields = BTreeMap::new();
    match write {
        Write::Create(object) => {
            let value = match object {
                Object::Namespace { labels, .. } => json!({ "metadata": { "labels": labels } }),
                Object::Service(service) => json!(service),
                Object::EndpointSlice(slice) => json!(slice),
                Object::Route(route) => json!(route),
            };
            flatten(&mut fields, String::new(), &Value::Null, &value);
        }
        Write::Patch(patch) => {
            let local = state.local.as_ref();
            let before = local.and_then(|local| before(local, patch.kind, namespace, name));
            flatten(
                &mut fields,
                String::new(),
                &before.unwrap_or_default(),
                &patch.body,
            );
        }
        Write::Delete { .. } | Write::RetireEndpoints { .. } => {}
    }
    PlannedChange {
        verb,
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        fields,
    }
}

#[cfg(test)]
mod tests;
