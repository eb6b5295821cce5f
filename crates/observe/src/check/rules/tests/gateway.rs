//! What the check of the gateway says when all is well.

use super::{
    cases::{forward, permitting},
    *,
};

#[test]
fn check_of_the_gateway_says_what_it_forwards_to() {
    let described = |should: Option<&str>, suffixes: &str| {
        let mut snapshot = well();
        forward(&mut snapshot, should, suffixes);
        if suffixes.is_empty() {
            snapshot.exports = Ok(vec![]);
        }
        let results = evaluate(&snapshot);
        let found = find(&results, "gateway forwards to what it should").unwrap();
        found.description.split_once("* ").unwrap().1.to_owned()
    };
    for (should, suffixes, said) in [
        (
            None,
            "svc.cluster.local.",
            "it forwards to all Services of this cluster, exported or not",
        ),
        (
            Some("gw"),
            "shop.svc.cluster.local.",
            "it forwards only to shop.svc.cluster.local.",
        ),
        (
            Some("gw"),
            "",
            "it forwards to nothing, because nothing is exported",
        ),
    ] {
        assert_eq!(described(should, suffixes), said);
    }
    let mut snapshot = well();
    permitting(&mut snapshot, |_, _| ());
    let found = find(&evaluate(&snapshot), "gateway forwards to what it should")
        .unwrap()
        .clone();
    let level =
        "it permits only exported Services, and only the clusters that these are exported to";
    assert!(found.description.contains(level), "{}", found.description);
}
