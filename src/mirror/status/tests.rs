//! Statuses: what is news, what is listed, when times move.

use super::conditions::ready;
use super::*;
use crate::mirror::{Problem, RemoteRef};

fn said(name: &str, federated: bool, report: Report) -> Reported {
    let remote = RemoteRef {
        cluster: "east".into(),
        namespace: "ns".into(),
        service: name.into(),
    };
    Reported {
        remote,
        federated,
        report,
    }
}

fn mirrored() -> Report {
    Report::Mirrored {
        local: "web-east".into(),
        note: None,
    }
}

fn failed(message: &str) -> Report {
    Report::Failed(Problem::new(Reason::NameConflict, message))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn only_news_is_news() {
    let mut ledger = Ledger::default();
    assert!(ledger.record(&said("web", false, mirrored())));
    assert!(!ledger.record(&said("web", false, mirrored())));
    assert!(!ledger.record(&said("web", false, Report::Unknown)));
    assert!(ledger.record(&said("web", true, failed("x"))));
    assert_eq!(ledger.counts(), (1, 0, 1));
    assert_eq!(
        ledger.keys("east"),
        [
            Key::mirror("east", "ns", "web"),
            Key::federated("ns", "web")
        ]
    );
    assert!(ledger.record(&said("web", false, Report::Absent)));
    assert!(!ledger.record(&said("web", false, Report::Absent)));
    assert_eq!(ledger.counts(), (0, 0, 1));
}

#[test]
fn a_status_computed_again_from_the_same_facts_is_the_same() {
    let mut ledger = Ledger::default();
    ledger.record(&said("web", false, mirrored()));
    ledger.record(&said("db", false, failed("taken")));
    let facts = Facts {
        credentials: Some(Ok(())),
        connected: Some(Ok(())),
        settled: true,
        gateway: Some(GatewayFacts {
            state: GatewayState {
                liveness: Liveness::Alive,
                ..Default::default()
            },
            ..Default::default()
        }),
        ..Default::default()
    };
    let first = status(&LinkStatus::default(), &facts, &ledger, at(1));
    assert_eq!(status(&first, &facts, &ledger, at(2)), first);
    let lost = Facts {
        connected: Some(Err("refused".into())),
        ..facts
    };
    let second = status(&first, &lost, &ledger, at(3));
    let time = |status: &LinkStatus, type_: &str| {
        let found = status.conditions.iter().find(|c| c.type_ == type_).unwrap();
        found.last_transition_time.0
    };
    assert_eq!(time(&second, "Connected"), at(3));
    assert_eq!(time(&second, "GatewayAlive"), at(1));
    assert_eq!(second.mirror_services, first.mirror_services);
}

#[test]
fn beyond_the_limit_only_problems_are_listed_and_counts_stay_true() {
    let mut ledger = Ledger::default();
    for index in 0..LISTED {
        ledger.record(&said(&format!("web-{index}"), false, mirrored()));
    }
    let list = |ledger: &Ledger| {
        status(&LinkStatus::default(), &Facts::default(), ledger, at(1))
            .mirror_services
            .len()
    };
    assert_eq!(list(&ledger), LISTED);
    for index in 0..=LISTED_PROBLEMS {
        ledger.record(&said(&format!("bad-{index}"), false, failed("taken")));
    }
    assert_eq!(list(&ledger), LISTED_PROBLEMS);
    assert_eq!(ledger.counts(), (LISTED, 0, LISTED_PROBLEMS + 1));
}

#[test]
fn readiness_names_the_first_thing_in_its_way() {
    let good = Facts {
        credentials: Some(Ok(())),
        connected: Some(Ok(())),
        settled: true,
        ..Default::default()
    };
    let reason = |facts: &Facts| (ready(facts).1, ready(facts).2);
    assert_eq!(reason(&good), ("True", "Mirroring"));
    assert_eq!(
        reason(&Facts {
            settled: false,
            ..good.clone()
        }),
        ("False", "Syncing")
    );
    assert_eq!(reason(&Facts::default()), ("False", "Syncing"));
    let cases = [
        (
            Facts {
                invalid: Some("x".into()),
                ..good.clone()
            },
            "InvalidLink",
        ),
        (
            Facts {
                duplicate_of: Some("x".into()),
                ..good.clone()
            },
            "DuplicateCluster",
        ),
        (
            Facts {
                credentials: Some(Err(("Missing", "x".into()))),
                ..good.clone()
            },
            "CredentialsInvalid",
        ),
        (
            Facts {
                connected: Some(Err("x".into())),
                ..good
            },
            "Disconnected",
        ),
    ];
    for (facts, expected) in cases {
        assert_eq!(reason(&facts), ("False", expected));
    }
}
