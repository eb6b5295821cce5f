//! The times that an object has: its writers, its conditions, and the restarts of a Pod.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::happened::Happened;

/// What its own cluster says happened to an object of this kind. Objects from lists have no kind.
pub fn history(kind: &str, object: &impl Serialize) -> Vec<Happened> {
    let object = serde_json::to_value(object).unwrap_or_default();
    let metadata = &object["metadata"];
    let about = about(kind, text(&metadata["namespace"]), text(&metadata["name"]));
    let conditions = conditions(kind, &object);
    let mut all = if kind == "Pod" {
        of_pod(&object)
    } else {
        // What a status has become is in its conditions.
        writers(metadata, conditions.is_empty())
    };
    all.extend(deleted(metadata));
    all.extend(conditions);
    let happened = all.into_iter().map(|(at, what)| Happened {
        at,
        about: about.clone(),
        what,
        ..Happened::default()
    });
    happened.collect()
}

/// How an object is called.
pub fn about(kind: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// Who created and changed an object. Of each writer, the API server keeps the last time.
fn writers(metadata: &Value, with_status: bool) -> Vec<(Timestamp, String)> {
    let created = time(&metadata["creationTimestamp"]);
    let entries = list(&metadata["managedFields"]);
    let mut all: Vec<_> = entries
        .filter_map(|entry| {
            let at = time(&entry["time"])?;
            let manager = text(&entry["manager"]);
            let what = match text(&entry["subresource"]) {
                "" if Some(at) == created => format!("created by {manager}"),
                "" => format!("changed by {manager}"),
                "status" if !with_status => return None,
                part => format!("{part} changed by {manager}"),
            };
            Some((at, what))
        })
        .collect();
    if !all.iter().any(|(at, _)| Some(*at) == created) {
        all.extend(created.map(|at| (at, "created".to_owned())));
    }
    all
}

/// When the deletion of an object began: the time in its metadata is when it may end.
fn deleted(metadata: &Value) -> Option<(Timestamp, String)> {
    let end = time(&metadata["deletionTimestamp"])?;
    let grace = metadata["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or_default();
    let began = end.checked_sub(SignedDuration::from_secs(grace)).ok()?;
    Some((began, "deletion began".to_owned()))
}

/// The conditions of an object: its own, those of a route for each of its parents, and of a Link those of Services that are
/// not mirrored.
fn conditions(kind: &str, object: &Value) -> Vec<(Timestamp, String)> {
    let status = &object["status"];
    // Those of a Pod say the same several times.
    let own = list(&status["conditions"]);
    let own = own.filter(|condition| kind != "Pod" || condition["type"] == "Ready");
    let parents = list(&status["parents"]).flat_map(|parent| list(&parent["conditions"]));
    let services = ["mirrorServices", "federatedServices"].into_iter();
    let services = services.flat_map(|field| list(&status[field]));
    let services = services.flat_map(|service| {
        let of = &service["remoteRef"];
        let name = format!("{}/{}: ", text(&of["namespace"]), text(&of["name"]));
        let bad = list(&service["conditions"]).filter(|condition| condition["status"] != "True");
        bad.map(move |condition| (name.clone(), condition))
    });
    let unnamed = own
        .chain(parents)
        .map(|condition| (String::new(), condition));
    unnamed
        .chain(services)
        .filter_map(|(of, condition)| {
            let at = time(&condition["lastTransitionTime"])?;
            Some((at, of + &became(condition)))
        })
        .collect()
}

fn became(condition: &Value) -> String {
    let [type_, status, reason, message] =
        ["type", "status", "reason", "message"].map(|field| text(&condition[field]));
    let mut what = format!("{type_} became {status}");
    for more in [reason, message] {
        if !more.is_empty() {
            what += ": ";
            what += more;
        }
    }
    what
}

/// The start of a Pod, and the ends and restarts of its containers.
fn of_pod(pod: &Value) -> Vec<(Timestamp, String)> {
    let status = &pod["status"];
    let mut all = Vec::new();
    let started = time(&status["startTime"]);
    match (started, text(&pod["spec"]["nodeName"])) {
        (Some(at), "") => all.push((at, "started".to_owned())),
        (Some(at), node) => all.push((at, format!("started on node {node}"))),
        (None, _) => {
            let created = time(&pod["metadata"]["creationTimestamp"]);
            all.extend(created.map(|at| (at, "created".to_owned())));
        }
    }
    for field in ["initContainerStatuses", "containerStatuses"] {
        for container in list(&status[field]) {
            of_container(container, &mut all);
        }
    }
    all
}

fn of_container(container: &Value, all: &mut Vec<(Timestamp, String)>) {
    let name = text(&container["name"]);
    let restarts = container["restartCount"].as_i64().unwrap_or_default();
    for state in ["lastState", "state"] {
        let ended = &container[state]["terminated"];
        let code = ended["exitCode"].as_i64().unwrap_or_default();
        // An init container that has done its work is no news.
        if let Some(at) = time(&ended["finishedAt"])
            && (code != 0 || state == "lastState")
        {
            let reason = text(&ended["reason"]);
            all.push((
                at,
                format!("container {name} ended: {reason}, exit code {code}"),
            ));
        }
    }
    if let Some(at) = time(&container["state"]["running"]["startedAt"])
        && restarts > 0
    {
        all.push((
            at,
            format!("container {name} started again, restart {restarts}"),
        ));
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}
