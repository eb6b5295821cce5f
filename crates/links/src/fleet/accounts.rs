//! The account of one cluster in another one: what it should have, and what is there. Pure.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::ResourceExt as _;
use manifests::{
    install::{RemoteAccess, allow},
    kubeconfig::Secret,
    link::ClusterName,
    render::ObjectName,
};
use mirror_core::api::{covers::covers, labels, metadata::cluster_uid};
use serde_json::{Value, json};

use crate::{
    fleet::{
        facts::{AccountFacts, AccountObject, is_of, other_fleet, was_of},
        hand_over::flags,
        loaded::LoadedFleet,
    },
    link::generate::{has, is_of as is_token_of},
    link_credentials::{Evidence, KubeconfigTarget, by_uid},
    rotate::tokens::token_in,
    steps::{Action, LinkStep, StepChange, StepPart, labelled, note},
};

/// The objects of accounts, by namespace, name and rights.
type RenderedAccounts = BTreeMap<(String, String, RemoteAccess), Arc<Vec<Value>>>;

/// An object of an account, as it is there.
struct FoundObject {
    object: Value,
    is_of_extension: bool,
    is_of_fleet: bool,
}

/// The account of a source cluster in a target cluster.
pub struct LinkAccount {
    /// The source cluster.
    source: String,
    pub name: String,
    /// The UID of the source cluster, if it is known.
    pub uid: Option<String>,
    /// Whether the account may have been that of another cluster, because this one was built again.
    pub is_replaced: bool,
    /// Whether the account may move from another namespace, while its Link stays where it is.
    pub moves: bool,
    /// The rights that it is to have.
    pub access: RemoteAccess,
}

impl LinkAccount {
    /// The account with the name of the cluster, of which nothing else is known.
    pub fn named(loaded: &LoadedFleet, source: &ClusterName) -> Self {
        Self {
            access: RemoteAccess::Full,
            source: source.to_string(),
            name: source.to_string(),
            uid: None,
            is_replaced: false,
            moves: loaded.accounts != loaded.namespace,
        }
    }

    /// The account that a source cluster has, or will have. One that got another name keeps its account.
    pub fn of(
        loaded: &LoadedFleet,
        source: &ClusterName,
        uid: Option<&str>,
        facts: &AccountFacts,
    ) -> Self {
        let own = facts.accounts.iter().filter(|account| {
            is_own(*account, &loaded.fleet.name) && uid.is_some() && cluster_uid(*account) == uid
        });
        let own: Vec<String> = own.map(kube::ResourceExt::name_any).collect();
        let named = Self::named(loaded, source);
        let first = own.first().filter(|_| !own.contains(&named.name));
        Self {
            name: first.unwrap_or(&named.name).clone(),
            uid: uid.map(str::to_owned),
            is_replaced: loaded.consent.replaced.contains(source),
            ..named
        }
    }

    /// Fails if the account is that of another cluster.
    fn check(&self, found: &ServiceAccount) -> Result<(), String> {
        let is_other = by_uid(cluster_uid(found), self.uid.as_deref()) == Some(Evidence::Elsewhere);
        if is_other && !self.is_replaced {
            return Err(format!(
                "the ServiceAccount {} is that of another cluster",
                self.name
            ));
        }
        Ok(())
    }

    /// The ServiceAccount with the UID of the cluster; if this is not known, with the one that it has. One that was made
    /// without, as by whoever has access to its cluster alone, stays so.
    fn recorded(&self, mut wanted: Value, found: Option<&ServiceAccount>) -> Value {
        let known = found.map(cluster_uid);
        let uid = self.uid.as_deref().filter(|_| known != Some(None));
        if let Some(uid) = uid.or_else(|| known.flatten()) {
            wanted["metadata"]["annotations"][labels::CLUSTER_UID] = json!(uid);
        }
        wanted
    }
}

/// What has to be written for an account. One that somebody else has made is used as it is, and if it `has_token`, none
/// is made. `Err` says why it cannot be used.
pub fn account_writes(
    loaded: &LoadedFleet,
    target: &ClusterName,
    account: &LinkAccount,
    facts: &AccountFacts,
    has_token: bool,
) -> Result<Vec<LinkStep>, String> {
    let (fleet, namespace) = (&loaded.fleet.name, &loaded.accounts);
    if facts.lacks_namespace {
        let create = flags(loaded, target).kubectl("create namespace {}", &[namespace]);
        return Err(format!(
            "the namespace {namespace} of accounts does not exist; create it with {create}"
        ));
    }
    let name = &account.name;
    let own = facts.account(name);
    if let Some(other) = own.and_then(|own| other_fleet(own, fleet)) {
        return Err(format!(
            "the ServiceAccount {name} belongs to the fleet {other}"
        ));
    }
    let all = objects(namespace, name, account.access).map_err(|error| format!("{error:#}"))?;
    let is_foreign = own.is_some_and(|own| !is_own(own, fleet));
    own.filter(|_| !is_foreign)
        .map_or(Ok(()), |own| account.check(own))?;
    let mut writes = Vec::new();
    for wanted in all.iter() {
        let Some(object) = ObjectName::of(wanted) else {
            continue; // each has a name
        };
        let found = found(facts, fleet, &object);
        let bound = found
            .as_ref()
            .filter(|found| !is_foreign && found.is_of_extension);
        let other = bound.and_then(|found| Some((found, bound_elsewhere(&found.object, wanted)?)));
        if let Some((found, other)) = other {
            let why = if !found.is_of_fleet {
                "and the fleet has not made it"
            } else if account.moves {
                ""
            } else {
                "which Links use; to move the fleet, apply its file with `links: []` there first"
            };
            if !why.is_empty() {
                let kind = &object.kind;
                return Err(format!(
                    "the {kind} {name} is for the account in the namespace {other}, {why}"
                ));
            }
        }
        let special = match object.kind.as_str() {
            "ServiceAccount" => Some(account.recorded(wanted.clone(), own)),
            "ClusterRoleBinding" => Some(with_former(wanted.clone(), name, facts)),
            _ => None,
        };
        let wanted = special.as_ref().unwrap_or(wanted);
        let (verb, why) = match &found {
            Some(found) if !found.is_of_extension => {
                return Err(format!(
                    "the {} {name} is not one of the extension",
                    object.kind
                ));
            }
            Some(found) if is_foreign || covers(&found.object, wanted) => continue,
            Some(found) if !found.is_of_fleet => {
                return Err(format!(
                    "the {} {name} is not as the account needs it, and the fleet has not made it",
                    object.kind
                ));
            }
            Some(found) if bound_elsewhere(&found.object, wanted).is_some() => {
                ("patch", "for the accounts in both namespaces".to_owned())
            }
            Some(_) => ("patch", "not as it has to be".to_owned()),
            // A rotation has replaced the first token.
            None if object.kind == "Secret" && has_token => continue,
            None => ("create", why_new(name, facts)),
        };
        writes.push(LinkStep {
            change: StepChange::of(verb, &object, why),
            action: Action::Apply(labelled(wanted.clone(), fleet)),
            part: StepPart::Account(account.source.clone()),
        });
    }
    if !is_foreign {
        let before = facts.objects();
        let before = before.filter(|of| of.account == name.as_str() && of.was_of(fleet));
        let notes = before.map(|of| noted(&of, fleet, account));
        let is_written = |note: &LinkStep| {
            let mut writes = writes.iter();
            writes.any(|step| step.change.is_same_object(&note.change))
        };
        let notes: Vec<LinkStep> = notes.filter(|note| !is_written(note)).collect();
        writes.extend(notes);
    }
    Ok(writes)
}

/// Gives an object from before the file had an ID the label with it.
fn noted(of: &AccountObject<'_>, fleet: &str, account: &LinkAccount) -> LinkStep {
    let object = of.kind.of_metadata(of.metadata);
    LinkStep {
        change: StepChange::of("patch", &object, "gets the ID of the file".to_owned()),
        action: note(object, fleet, None),
        part: StepPart::Account(account.source.clone()),
    }
}

/// Whether the fleet has made an object, with the ID that its file has or before it had one.
fn is_own(object: &impl kube::Resource, fleet: &str) -> bool {
    is_of(object, fleet) || was_of(object, fleet)
}

/// The namespace of the account that a binding is for, if it is not for the one that is wanted.
fn bound_elsewhere<'f>(found: &'f Value, wanted: &Value) -> Option<&'f str> {
    let wanted = wanted["subjects"][0]["namespace"].as_str()?;
    let mut namespaces = namespaces(found);
    let first = namespaces.next()?;
    (first != wanted && namespaces.all(|other| other != wanted)).then_some(first)
}

/// The namespaces of the accounts that a binding is for.
pub fn namespaces(binding: &Value) -> impl Iterator<Item = &str> {
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    subjects.filter_map(|subject| subject["namespace"].as_str())
}

/// The binding of an account, also for those in other namespaces: they may be in use as long as they exist.
fn with_former(mut binding: Value, name: &str, facts: &AccountFacts) -> Value {
    let own = binding["subjects"][0].clone();
    if let Some(subjects) = binding["subjects"].as_array_mut() {
        subjects.extend(facts.former.named(name).map(|former| {
            let mut subject = own.clone();
            subject["namespace"] = json!(former.namespace());
            subject
        }));
    }
    binding
}

fn why_new(name: &str, facts: &AccountFacts) -> String {
    let until_now = facts.former.namespaces(name);
    let until_now = until_now.map(|of| format!(", until now in the namespace {of}"));
    format!("the account of {name}{}", until_now.unwrap_or_default())
}

/// The binding of the account of this name, for no other one.
pub fn binding(loaded: &LoadedFleet, name: &str) -> Option<Value> {
    let objects = objects(&loaded.accounts, name, RemoteAccess::Full).ok()?;
    let mut objects = objects.iter();
    let binding = objects.find(|object| object["kind"] == "ClusterRoleBinding")?;
    Some(labelled(binding.clone(), &loaded.fleet.name))
}

/// The objects of the account of this name. They are rendered once: it takes milliseconds, and a cluster has the same
/// account in all of its target clusters.
fn objects(namespace: &str, name: &str, access: RemoteAccess) -> anyhow::Result<Arc<Vec<Value>>> {
    static RENDERED: Mutex<RenderedAccounts> = Mutex::new(BTreeMap::new());
    let key = (namespace.to_owned(), name.to_owned(), access);
    let mut rendered = RENDERED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = rendered.get(&key) {
        return Ok(known.clone());
    }
    let manifest = allow(namespace, &[name.to_owned()], access, false)?;
    let made = Arc::new(manifest.into_objects()?);
    rendered.insert(key, made.clone());
    Ok(made)
}

fn found(facts: &AccountFacts, fleet: &str, wanted: &ObjectName) -> Option<FoundObject> {
    fn of<K>(all: &[K], fleet: &str, name: &str) -> Option<FoundObject>
    where
        K: kube::Resource + serde::Serialize,
    {
        let object = all.iter().find(|object| object.name_any() == name)?;
        let label = object.labels().get(labels::EXTENSION);
        let names = [labels::EXTENSION_NAME, labels::EXTENSION_NAME_LEGACY];
        Some(FoundObject {
            object: json!(object),
            is_of_extension: label.is_some_and(|label| names.contains(&label.as_str())),
            is_of_fleet: is_own(object, fleet),
        })
    }
    let name = &wanted.name;
    let free = |found: FoundObject| FoundObject {
        is_of_extension: true, // only those of all namespaces are shared
        ..found
    };
    match wanted.kind.as_str() {
        "ClusterRole" => of(&facts.roles, fleet, name),
        "ClusterRoleBinding" => of(&facts.bindings, fleet, name),
        "ServiceAccount" => of(&facts.accounts, fleet, name).map(free),
        _ => of(&facts.tokens, fleet, name).map(free),
    }
}

/// A token for an account: the one that is `held` as long as it is valid, that of the account's Secret, or one that was
/// requested.
pub fn token(
    facts: &AccountFacts,
    name: &str,
    held: Option<&KubeconfigTarget>,
    now: Timestamp,
) -> Option<Secret> {
    let account = facts.account(name)?;
    let is_valid = |held: &&KubeconfigTarget| {
        let Some(of) = &held.account else {
            return false;
        };
        let is_there = facts.tokens.iter().any(|secret| {
            let token = held.token.as_ref();
            let is_bound = of.bound_to.is_some() && of.bound_to == secret.uid();
            is_bound || token.is_some_and(|token| has(secret, token))
        });
        let lasts = of.expires.is_none_or(|at| at > now);
        let is_unbound = of.secret.is_none() && of.expires.is_some();
        of.uid.is_some() && of.uid == account.uid() && lasts && (is_there || is_unbound)
    };
    if let Some(held) = held.filter(is_valid) {
        return held.token.clone();
    }
    let secrets = facts
        .tokens
        .iter()
        .filter(|secret| is_token_of(secret, name));
    let mut tokens = secrets.filter_map(token_in);
    tokens.next().or_else(|| facts.requested.clone())
}
