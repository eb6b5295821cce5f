//! The differences that are on purpose, by their numbers in docs/differences.md.

use crate::{
    case::{Case, Edit},
    run::Outcome,
};

/// A row of docs/differences.md.
struct Known {
    number: &'static str,
    /// Whether a difference is this one, and nothing else.
    is: fn(&Case, kubectl: &Outcome, ours: &Outcome) -> bool,
}

const KNOWN: &[Known] = &[
    // kubectl asks for a user name and a password on standard input.
    Known {
        number: "D-35",
        is: |_, kubectl, ours| {
            let is_anonymous = |event: &String| !event.contains(" authorization=");
            kubectl.said.contains("error: EOF")
                && kubectl.did_nothing()
                && ours.runs == 0
                && ours.arrived.iter().all(is_anonymous)
        },
    },
    // Addresses of API servers that mean something else than they seem to.
    Known {
        number: "D-36",
        is: |case, _, ours| {
            ours.did_nothing() && ours.said.contains("server: ") && case.has(is_odd_server)
        },
    },
    // Files that Go does not read.
    Known {
        number: "D-37",
        is: |_, kubectl, ours| {
            let why = [
                "duplicate name",
                "cannot unmarshal",
                "error converting",
                "illegal base64 data",
            ];
            kubectl.did_nothing()
                && why.iter().any(|why| kubectl.said.contains(why))
                && !ours.did_nothing()
        },
    },
    // Proxies with another protocol, or without a host.
    Known {
        number: "D-38",
        is: |case, kubectl, ours| {
            let is_odd = |edit: &Edit| {
                matches!(edit, Edit::Env(name, value) if name.to_uppercase().ends_with("_PROXY")
                    && ours.said.contains(&name.to_uppercase())
                    && (value.starts_with("ftp:") || value.starts_with("socks4:") || value.contains(' ')))
            };
            let has_no_host = |edit: &Edit| matches!(edit, Edit::Cluster("proxy-url", "'http://'"));
            ours.did_nothing()
                && (case.has(is_odd)
                    || kubectl.arrived.is_empty()
                        && ours.said.contains("proxy-url: not a proxy")
                        && case.has(has_no_host))
        },
    },
    // The certificate of the server as its authority.
    Known {
        number: "D-41",
        is: |case, _, ours| {
            let is_leaf = |edit: &Edit| matches!(edit, Edit::Cluster(_, "LEAF"));
            ours.said.contains("UnknownIssuer") && case.has(is_leaf)
        },
    },
    // Tokens that have expired when they are printed.
    Known {
        number: "D-42",
        is: |case, kubectl, ours| {
            let expired = |edit: &Edit| matches!(edit, Edit::Prints("EXPIRED"));
            case.has(expired)
                && kubectl.arrived == ours.arrived
                && kubectl.runs > 0
                && ours.runs > 0
        },
    },
    // An empty name of a context.
    Known {
        number: "D-44",
        is: |case, _, ours| {
            let empty = |edit: &Edit| matches!(edit, Edit::Flag("--context="));
            ours.did_nothing() && ours.said.contains("--context is empty") && case.has(empty)
        },
    },
    // A user who is not there.
    Known {
        number: "D-45",
        is: |_, kubectl, ours| {
            let is_anonymous = |event: &String| !event.contains(" authorization=");
            ours.did_nothing()
                && ours.said.contains("who is not in the kubeconfig")
                && kubectl.arrived.iter().all(is_anonymous)
        },
    },
];

/// The number of a difference that is known.
pub(crate) fn known(case: &Case, [kubectl, ours]: &[Outcome; 2]) -> Option<&'static str> {
    let found = KNOWN.iter().find(|known| (known.is)(case, kubectl, ours));
    if let Some(known) = found {
        return Some(known.number);
    }
    // These are about parts of requests, and may come together.
    let same = kubectl.runs == ours.runs && alike(case, kubectl) == alike(case, ours);
    same.then_some("D-32, D-33 or D-36")
}

/// What arrived, without what rows D-32, D-33 and D-36 are about.
fn alike(case: &Case, outcome: &Outcome) -> Vec<String> {
    let events = outcome.arrived.iter();
    let events =
        events.map(|event| without_path(case, &without_groups(case, &without_proxy(event))));
    events.collect()
}

/// D-32: a request by plain HTTP through a proxy, however it was asked.
fn without_proxy(event: &str) -> String {
    if let Some((proxy, user)) = event.split_once(": whole URL") {
        return format!("{proxy}: HTTP{user}");
    }
    if let Some((proxy, rest)) = event.split_once(": CONNECT ")
        && let Some((_, user)) = rest.split_once(":HTTP")
    {
        return format!("{proxy}: HTTP{user}");
    }
    let request = event.strip_prefix("http: ");
    let Some((host, rest)) = request.and_then(|rest| rest.split_once(' ')) else {
        return event.to_owned();
    };
    // The proxy of the suite sees this header, not the API server.
    let rest = match rest.split_once(" proxy-authorization=") {
        Some((rest, _)) if rest.starts_with("http://") => rest,
        _ => rest,
    };
    let path = rest.strip_prefix(&format!("http://{host}")).unwrap_or(rest);
    format!("http: {host} {path}")
}

/// D-33: the groups, the UID and the extra of another user.
fn without_groups(case: &Case, event: &str) -> String {
    let names_user = |edit: &Edit| matches!(edit, Edit::Flag(flag) if flag.starts_with("--as="));
    let has_more = |edit: &Edit| {
        matches!(
            edit,
            Edit::User("as-groups" | "as-uid" | "as-user-extra", _)
        )
    };
    if !case.has(names_user) || !case.has(has_more) {
        return event.to_owned();
    }
    let mut parts = event.split(" impersonate-");
    let start = parts.next().unwrap_or_default().to_owned();
    let kept = parts.filter(|part| part.starts_with("user="));
    kept.fold(start, |event, part| format!("{event} impersonate-{part}"))
}

/// D-36: a path as kubectl cleans it.
fn without_path(case: &Case, event: &str) -> String {
    let is_odd = |edit: &Edit| matches!(edit, Edit::Cluster("server", path) if path.contains("//a") || path.contains('%'));
    if !case.has(is_odd) {
        return event.to_owned();
    }
    event.replace("//a", "/a").replace("%41%2Fb", "A/b")
}

fn is_odd_server(edit: &Edit) -> bool {
    let (Edit::Cluster("server", server) | Edit::Server(server)) = edit else {
        return false;
    };
    let server = server.trim_matches('\'');
    let address = server
        .strip_prefix("https://")
        .or_else(|| server.strip_prefix("http://"));
    address.is_none_or(|address| address.is_empty() || address.contains([' ', '@', '?']))
}
