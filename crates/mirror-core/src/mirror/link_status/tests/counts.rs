//! Which Services are counted, and the condition for those that wait for a `ClusterIP`.

use super::*;

fn without(reason: Reason) -> Outcome {
    Outcome::Failed(Problem::new(reason, "no"))
}

#[test]
fn members_of_a_drained_cluster_are_not_counted_as_unhealthy() {
    let mut outcomes = Outcomes::default();
    for (name, federated, report) in [
        ("web", false, mirrored()),
        ("web", true, without(Reason::Drained)),
        ("api", true, without(Reason::Drained)),
        ("db", true, without(Reason::PortConflict)),
    ] {
        outcomes.record(&described(name, federated, report));
    }
    assert_eq!(outcomes.counts(), (1, 0, 1));
}

#[test]
fn services_that_wait_for_an_address_are_counted_in_a_condition() {
    for (waiting, expected) in [
        (&[][..], None),
        (&[("web", false)], Some(1)),
        (&[("web", false), ("web", true), ("db", true)], Some(3)),
    ] {
        let mut outcomes = Outcomes::default();
        outcomes.record(&described("good", false, mirrored()));
        outcomes.record(&described("taken", true, failed("taken")));
        for (name, federated) in waiting {
            outcomes.record(&described(name, *federated, without(Reason::NoClusterIp)));
        }
        let facts = StatusInputs::default();
        let status = status(&LinkStatus::default(), &facts, &outcomes, at(1));
        let found = status.condition("ClusterIPsExhausted");
        let found = found.map(|c| (&*c.status, &*c.reason, c.message.split(';').next().unwrap()));
        let message = expected.map(|number| format!("Services waiting for a ClusterIP: {number}"));
        let expected = message.as_ref();
        let expected = expected.map(|message| ("True", "NoClusterIP", &**message));
        assert_eq!(found, expected, "{waiting:?}");
    }
}
