//! Statuses: what counts as a change, what is listed, and when times change.

mod counts;

use super::conditions::ready;
use super::*;
use crate::api::{conditions::GATEWAY_ADDRESS_REFUSED, tls::InsecureTls};
use crate::mirror::{
    GatewayState, Limits, Omitted, Problem, Refusal, Refused, RemoteRef, RemoteState,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

fn described(name: &str, federated: bool, report: Outcome) -> ServiceOutcome {
    let remote = RemoteRef {
        cluster: "east".into(),
        namespace: "ns".into(),
        service: name.into(),
    };
    ServiceOutcome {
        remote,
        federated,
        report,
    }
}

fn mirrored() -> Outcome {
    Outcome::Mirrored {
        local: "web-east".into(),
        note: None,
    }
}

fn failed(message: &str) -> Outcome {
    Outcome::Failed(Problem::new(Reason::NameConflict, message))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn services_with_a_report_have_keys() {
    let mut outcomes = Outcomes::default();
    outcomes.record(&described("web", false, mirrored()));
    outcomes.record(&described("db", true, failed("taken")));
    let keys = [Key::mirror("east", "ns", "web"), Key::federated("ns", "db")];
    assert_eq!(outcomes.keys("east"), keys);
    outcomes.record(&described("web", false, Outcome::Absent));
    assert_eq!(outcomes.keys("east"), keys[1..]);
}

#[test]
fn only_a_new_outcome_is_a_change() {
    let mut outcomes = Outcomes::default();
    let mut record = |report| outcomes.record(&described("web", false, report));
    assert_eq!(record(mirrored()), StatusChange::Change);
    assert_eq!(record(mirrored()), StatusChange::None);
    assert_eq!(record(Outcome::Unknown), StatusChange::None);
    assert_eq!(
        outcomes.record(&described("web", true, failed("x"))),
        StatusChange::Change
    );
    assert_eq!(outcomes.counts(), (1, 0, 1));
    let mut record = |report| outcomes.record(&described("web", false, report));
    assert_eq!(record(Outcome::Absent), StatusChange::Change);
    assert_eq!(record(Outcome::Absent), StatusChange::None);
    assert_eq!(outcomes.counts(), (0, 0, 1));
}

#[test]
fn another_message_of_the_same_problem_is_not_a_change() {
    let mut outcomes = Outcomes::default();
    let mut record = |report| outcomes.record(&described("web", false, report));
    assert_eq!(record(failed("one")), StatusChange::Change);
    assert_eq!(record(failed("another")), StatusChange::Words);
    assert_eq!(record(failed("another")), StatusChange::None);
    let other = Problem::new(Reason::Error, "another");
    assert_eq!(record(Outcome::Failed(other)), StatusChange::Change);
    let noted = |reason, message: &str| Outcome::Mirrored {
        local: "web-east".into(),
        note: Some(Problem::new(reason, message)),
    };
    assert_eq!(record(noted(Reason::Error, "one")), StatusChange::Change);
    assert_eq!(record(noted(Reason::Error, "another")), StatusChange::Words);
    assert_eq!(
        record(noted(Reason::PortConflict, "one")),
        StatusChange::Change
    );
    assert_eq!(record(mirrored()), StatusChange::Change);
}

#[test]
fn a_status_computed_again_from_the_same_facts_is_the_same() {
    let mut outcomes = Outcomes::default();
    outcomes.record(&described("web", false, mirrored()));
    outcomes.record(&described("db", false, failed("taken")));
    let facts = StatusInputs {
        credentials: Some(Ok(())),
        connected: Some(Ok(())),
        settled: true,
        gateway: Some(GatewayInputs {
            state: GatewayState {
                liveness: Liveness::Alive,
                ..Default::default()
            },
            ..Default::default()
        }),
        ..Default::default()
    };
    let first = status(&LinkStatus::default(), &facts, &outcomes, at(1));
    assert_eq!(status(&first, &facts, &outcomes, at(2)), first);
    let lost = StatusInputs {
        connected: Some(Err("refused".to_owned().into())),
        ..facts.clone()
    };
    let second = status(&first, &lost, &outcomes, at(3));
    let time = |status: &LinkStatus, type_: &str| {
        let found = status.conditions.iter().find(|c| c.type_ == type_).unwrap();
        found.last_transition_time.0
    };
    assert_eq!(time(&second, "Connected"), at(3));
    assert_eq!(time(&second, "GatewayAlive"), at(1));
    assert_eq!(second.mirror_services, first.mirror_services);
    let third = status(&second, &facts, &outcomes, at(4));
    assert_eq!(time(&third, "Ready"), at(4), "not as long as the others");
    assert_eq!(time(&third, "CredentialsValid"), at(1));
}

#[test]
fn expiring_credentials_are_reported_and_change_the_status_only_with_their_stage() {
    let (day, end) = (86_400, 100 * 86_400);
    let facts = StatusInputs {
        expiry: Some(Expiry {
            at: at(end),
            cluster: "east".into(),
        }),
        ..StatusInputs::default()
    };
    let mut before = LinkStatus::default();
    for (now, written, expected) in [
        (1, true, None),
        (end - 7 * day - 1, false, None),
        (end - 7 * day, true, Some(("ExpiresSoon", "expires"))),
        (end - 1, false, Some(("ExpiresSoon", "expires"))),
        (end, true, Some(("Expired", "expired"))),
        (end + 7 * day, false, Some(("Expired", "expired"))),
    ] {
        let after = status(&before, &facts, &Outcomes::default(), at(now));
        let of_type = |c: &&Condition| c.type_ == "CredentialsExpiring";
        let described = after.conditions.iter().find(of_type);
        let expected = expected.map(|(reason, verb)| {
            let text = format!(
                "the token {verb} on 1970-04-11 00:00 UTC; renew it with `linkerd-mc rotate east`"
            );
            let since = at(end - 7 * day);
            ("True".to_owned(), reason.to_owned(), Some(text), since)
        });
        let described = described.cloned().map(|c| {
            let problem = c
                .message
                .split_once(". ")
                .map(|(problem, _)| problem.to_owned());
            (c.status, c.reason, problem, c.last_transition_time.0)
        });
        assert_eq!(described, expected, "{now}");
        assert_eq!(after != before, written, "{now}");
        before = after;
    }
}

#[test]
fn beyond_the_limit_only_problems_are_listed_and_counts_stay_correct() {
    let mut outcomes = Outcomes::default();
    for index in 0..LISTED {
        outcomes.record(&described(&format!("web-{index}"), false, mirrored()));
    }
    let list = |outcomes: &Outcomes| {
        status(
            &LinkStatus::default(),
            &StatusInputs::default(),
            outcomes,
            at(1),
        )
        .mirror_services
        .len()
    };
    assert_eq!(list(&outcomes), LISTED);
    for index in 0..=LISTED_PROBLEMS {
        outcomes.record(&described(&format!("bad-{index}"), false, failed("taken")));
    }
    assert_eq!(list(&outcomes), LISTED_PROBLEMS);
    assert_eq!(outcomes.counts(), (LISTED, 0, LISTED_PROBLEMS + 1));
    let status = status(
        &LinkStatus::default(),
        &StatusInputs::default(),
        &outcomes,
        at(1),
    );
    for listed in status.mirror_services {
        assert_eq!(listed.conditions[0].status, "False", "{listed:?}");
    }
}

#[test]
fn members_count_towards_the_limit_of_the_list() {
    let mut outcomes = Outcomes::default();
    for index in 0..LISTED {
        outcomes.record(&described(&format!("web-{index}"), false, mirrored()));
    }
    for name in ["web-0", "web-1"] {
        outcomes.record(&described(name, true, mirrored()));
    }
    outcomes.record(&described("web-2", true, failed("taken")));
    assert_eq!(outcomes.counts(), (LISTED, 2, 1));
    let status = status(
        &LinkStatus::default(),
        &StatusInputs::default(),
        &outcomes,
        at(1),
    );
    assert_eq!(status.mirror_services.len(), 0);
    assert_eq!(status.federated_services.len(), 1);
    let counts = (status.mirrored, status.federated, status.unhealthy);
    assert_eq!(counts, (Some(500), Some(2), Some(1)));
}

#[test]
fn a_service_is_listed_with_its_reference_and_its_condition() {
    let mut outcomes = Outcomes::default();
    outcomes.record(&described("db", false, failed(&"x".repeat(600))));
    outcomes.record(&described("web", false, mirrored()));
    let noted = Outcome::Mirrored {
        local: "api-east".into(),
        note: Some(Problem::new(Reason::PortConflict, "ports differ")),
    };
    outcomes.record(&described("api", false, noted));
    let status = status(
        &LinkStatus::default(),
        &StatusInputs::default(),
        &outcomes,
        at(1),
    );
    let reference = |name: &str| ServiceRef {
        group: "core".into(),
        kind: "Service".into(),
        name: name.into(),
        namespace: "ns".into(),
    };
    let long = "x".repeat(499) + "…";
    let expected = [
        (
            "api",
            "True",
            "PortConflict",
            "ports differ",
            Some("api-east"),
        ),
        ("db", "False", "NameConflict", long.as_str(), None),
        ("web", "True", "Mirrored", "", Some("web-east")),
    ];
    let expected = expected.map(|(name, status, reason, message, local)| ServiceStatus {
        controller_name: "linkerd.io/service-mirror".into(),
        remote_ref: reference(name),
        conditions: vec![ServiceCondition {
            type_: "Mirrored".into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            last_transition_time: Time(at(1)),
            local_ref: local.map(reference),
        }],
    });
    assert_eq!(status.mirror_services, expected);
}

#[test]
fn services_beyond_the_limit_are_counted_once_and_reported() {
    let left = |named: &[&str], unnamed: usize| {
        let mut left = Omitted::default();
        for number in 0..unnamed {
            left.add(("ns".to_owned(), number.to_string()));
        }
        left.forget_names();
        for name in named {
            left.add(("ns".to_owned(), (*name).to_owned()));
        }
        left
    };
    let services = "more than 3 Services are exported; omitted: ";
    let slices = "too many EndpointSlices; incomplete Services: ";
    for (omitted, omitted_slices, counts, message) in [
        (vec![], vec![], None, None),
        (vec![left(&[], 0)], vec![left(&[], 0)], None, None),
        (
            vec![left(&["a", "b"], 0), left(&["b"], 0)],
            vec![],
            Some((2, 0)),
            Some(format!("{services}2")),
        ),
        (
            vec![left(&["a"], 2), left(&[], 3)],
            vec![],
            Some((6, 0)),
            Some(format!("{services}6")),
        ),
        (
            vec![],
            vec![left(&["a"], 0)],
            Some((0, 1)),
            Some(format!("{slices}1")),
        ),
        (
            vec![left(&["a"], 0)],
            vec![left(&["b"], 0)],
            Some((1, 1)),
            Some(format!("{services}1; {slices}1")),
        ),
    ] {
        let remote = RemoteState {
            omitted,
            omitted_slices,
            ..RemoteState::default()
        };
        let limits = Limits {
            services: 3,
            host: 0,
            metadata: 1 << 10,
            bytes: 7 << 20,
        };
        let exceeded = Exceeded::of(&remote, limits);
        assert_eq!(exceeded.map(|e| (e.services, e.incomplete)), counts);
        let facts = StatusInputs {
            exceeded,
            ..StatusInputs::default()
        };
        let reports = status(&LinkStatus::default(), &facts, &Outcomes::default(), at(1));
        let mut reports = reports.conditions.into_iter();
        let reports = reports.find(|condition| condition.type_ == "LimitExceeded");
        assert_eq!(reports.map(|condition| condition.message), message);
    }
}

#[test]
fn insecure_connection_is_reported() {
    for (insecure, reason) in [
        (None, None),
        (Some(InsecureTls::Plain), Some("NotEncrypted")),
        (
            Some(InsecureTls::Unverified),
            Some("CertificateNotVerified"),
        ),
    ] {
        let facts = StatusInputs {
            insecure,
            ..StatusInputs::default()
        };
        let reports = status(&LinkStatus::default(), &facts, &Outcomes::default(), at(1));
        let mut reports = reports.conditions.into_iter();
        let reports = reports.find(|condition| condition.type_ == "InsecureTLS");
        assert_eq!(reports.as_ref().map(|c| c.reason.as_str()), reason);
        // The message is not truncated.
        let message = reports.map(|c| c.message).unwrap_or_default();
        assert_eq!(
            message,
            insecure.map(InsecureTls::problem).unwrap_or_default()
        );
    }
}

#[test]
fn refused_addresses_are_reported_and_not_listed() {
    let (good, bad) = ("192.0.2.1", "127.0.0.1");
    for (addresses, refused, reason) in [
        (vec![good], vec![], None),
        (vec![bad, good], vec![bad], Some("SomeRefused")),
        (vec![bad], vec![bad], Some("AllRefused")),
    ] {
        let ip = |text: &&str| text.parse().unwrap();
        let shown: Vec<&str> = addresses.iter().copied().filter(|a| *a == good).collect();
        let facts = StatusInputs {
            gateway: Some(GatewayInputs {
                state: GatewayState {
                    addresses: Some(addresses.iter().map(ip).collect()),
                    liveness: Liveness::Alive,
                },
                refused: refused
                    .iter()
                    .map(|address| Refused {
                        address: ip(address),
                        why: Refusal::Loopback,
                    })
                    .collect(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let reports = status(&LinkStatus::default(), &facts, &Outcomes::default(), at(1));
        assert_eq!(reports.gateway.unwrap().addresses, shown, "{addresses:?}");
        let mut reports = reports.conditions.into_iter();
        let reports = reports.find(|condition| condition.type_ == GATEWAY_ADDRESS_REFUSED);
        assert_eq!(reports.as_ref().map(|c| c.reason.as_str()), reason);
        let message = reports.map(|c| c.message).unwrap_or_default();
        let expected = reason.map_or("", |_| "127.0.0.1 is a loopback address");
        assert_eq!(message, expected);
    }
}

#[test]
fn gateway_transition_time_changes_only_with_its_liveness() {
    let with = |previous: &LinkStatus, liveness, second| {
        let facts = StatusInputs {
            gateway: Some(GatewayInputs {
                state: GatewayState {
                    addresses: Some(vec!["192.0.2.1".parse().unwrap()]),
                    liveness,
                },
                latency_ms: Some(3),
                ..Default::default()
            }),
            ..Default::default()
        };
        status(previous, &facts, &Outcomes::default(), at(second))
    };
    let gateway = |status: &LinkStatus| status.gateway.clone().unwrap();
    let expected = |alive: Option<bool>, since: Option<i64>| GatewayStatus {
        alive,
        since: since.map(|second| Time(at(second))),
        latency_ms: Some(3),
        addresses: vec!["192.0.2.1".into()],
    };
    let unknown = with(&LinkStatus::default(), Liveness::Unknown, 1);
    assert_eq!(gateway(&unknown), expected(None, None));
    let alive = with(&unknown, Liveness::Alive, 2);
    assert_eq!(gateway(&alive), expected(Some(true), Some(2)));
    let still = with(&alive, Liveness::Alive, 3);
    assert_eq!(gateway(&still), expected(Some(true), Some(2)));
    let dead = with(&still, Liveness::Dead, 4);
    assert_eq!(gateway(&dead), expected(Some(false), Some(4)));
}

#[test]
fn readiness_names_the_first_problem() {
    let good = StatusInputs {
        credentials: Some(Ok(())),
        connected: Some(Ok(())),
        settled: true,
        ..Default::default()
    };
    let reason = |facts: &StatusInputs| {
        let (_, status, reason, ..) = ready(facts);
        assert_eq!(facts.is_ready(), status == "True", "{reason}");
        (status, reason)
    };
    assert_eq!(reason(&good), ("True", "Mirroring"));
    assert_eq!(
        reason(&StatusInputs {
            settled: false,
            ..good.clone()
        }),
        ("False", "Syncing")
    );
    assert_eq!(reason(&StatusInputs::default()), ("False", "Syncing"));
    let cases = [
        (
            StatusInputs {
                invalid: Some("x".into()),
                ..good.clone()
            },
            "InvalidLink",
        ),
        (
            StatusInputs {
                held_up: Some("x".into()),
                ..good.clone()
            },
            "ChangeNotInEffect",
        ),
        (
            StatusInputs {
                duplicate_of: Some("x".into()),
                ..good.clone()
            },
            "DuplicateCluster",
        ),
        (
            StatusInputs {
                credentials: Some(Err(("Missing", "x".into()))),
                ..good.clone()
            },
            "CredentialsInvalid",
        ),
        (
            StatusInputs {
                connected: Some(Err("x".to_owned().into())),
                ..good
            },
            "Disconnected",
        ),
    ];
    for (facts, expected) in cases {
        assert_eq!(reason(&facts), ("False", expected));
    }
}

#[test]
fn link_that_only_a_change_of_links_can_mend_is_stalled() {
    let stalled = |facts: &StatusInputs| {
        let after = status(&LinkStatus::default(), facts, &Outcomes::default(), at(1));
        let mut found = after.conditions.into_iter();
        found
            .find(|c| c.type_ == "Stalled")
            .map(|c| (c.status, c.reason, c.message))
    };
    let described = |reason: &str, message: &str| {
        Some(("True".to_owned(), reason.to_owned(), message.to_owned()))
    };
    let invalid = StatusInputs {
        invalid: Some("no port".into()),
        ..StatusInputs::default()
    };
    assert_eq!(stalled(&invalid), described("InvalidLink", "no port"));
    let duplicate = StatusInputs {
        duplicate_of: Some("older".into()),
        ..StatusInputs::default()
    };
    let older = "Link older is older and has the same target cluster";
    assert_eq!(stalled(&duplicate), described("DuplicateCluster", older));
    let unusable = StatusInputs {
        credentials: Some(Err(("SecretMissing", "not found".into()))),
        connected: Some(Err("refused".to_owned().into())),
        ..StatusInputs::default()
    };
    assert_eq!(stalled(&unusable), None, "the Secret may come");
}

#[test]
fn connected_names_what_a_user_has_to_look_at() {
    for (cause, reason) in [
        (LossCause::Unreachable, "Unreachable"),
        (LossCause::Certificate, "CertificateInvalid"),
        (LossCause::Token, "Unauthorized"),
        (LossCause::NoService, "Unreachable"),
    ] {
        // The gateway for traffic is not the reason, whatever its probes say.
        let facts = StatusInputs {
            connected: Some(Err(ConnectionLoss {
                why: "no".to_owned(),
                cause,
            })),
            through_gateway: cause != LossCause::Unreachable,
            gateway: Some(GatewayInputs {
                state: GatewayState {
                    liveness: Liveness::Dead,
                    ..GatewayState::default()
                },
                ..GatewayInputs::default()
            }),
            ..StatusInputs::default()
        };
        let all = conditions(&[], &facts, 0, Timestamp::UNIX_EPOCH);
        let connected = all.iter().find(|c| c.type_ == "Connected").unwrap();
        assert_eq!(
            (connected.reason.as_str(), connected.message.as_str()),
            (reason, "no")
        );
    }
}

#[test]
fn connected_says_that_the_api_server_is_behind_a_gateway() {
    let neither = "neither the API server nor its gateway answers: timed out";
    let unresolved = "cannot reach the gateway that leads to the API server: no such host";
    for (through_gateway, no_api_gateway, reason, message) in [
        (false, None, "Unreachable", "timed out"),
        (true, None, "Unreachable", neither),
        (true, Some("no such host"), "GatewayUnreachable", unresolved),
    ] {
        let facts = StatusInputs {
            connected: Some(Err("timed out".to_owned().into())),
            through_gateway,
            no_api_gateway: no_api_gateway.map(str::to_owned),
            ..StatusInputs::default()
        };
        let status = status(&LinkStatus::default(), &facts, &Outcomes::default(), at(0));
        let found = status.condition("Connected").unwrap();
        assert_eq!((&*found.reason, &*found.message), (reason, message));
    }
}
