//! Property tests of the core against clusters in memory. After any history, and in whatever order the controller sees
//! its events, the controller comes to rest, in the same state, and never touches what is not ours.
//!
//! In these cases the final state depends on earlier states, on purpose:
//! - an object that has a name keeps it (`ownership/claims.rs`);
//! - while the liveness of a gateway is unknown, endpoints keep their readiness; while its addresses are unknown,
//!   endpoints are not changed;
//! - a headless mirror without endpoints keeps its form;
//! - objects of a cluster that cannot be seen, or whose Link cannot be read, are kept;
//! - if all clusters of a federated Service are drained, those that are members stay;
//! - objects of deleted Links are removed only if we have written them.

mod cluster;
mod operations;
mod simulation;

use std::time::Duration;

use proptest::prelude::*;

use crate::mirror::{FederatedThrough, Federation};

use self::{
    operations::{
        Allowed, ApiServer, CLUSTERS, Form, History, LINK_NAMES, Limited, LinkMade, Operation,
        ServiceMade, addresses, broken_form, crowd, drains, history, last_members, limited,
        liveness, local_name, memberships, plain_history, preferences, slice_edit,
    },
    simulation::{Rng, Simulation},
};

/// Tries 256 cases per property, as proptest does by default, and 1,000 in `.ci/run`. The variables of proptest, such as
/// `PROPTEST_CASES`, are stronger than the numbers here.
fn config() -> ProptestConfig {
    ProptestConfig {
        max_shrink_iters: 20_000,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    }
}

/// Applies a history, and lets the controller do some of its work after each operation.
fn live(acts: &History, seed: u64, max_namespaces: usize) -> Simulation {
    lived(Simulation::new(seed, max_namespaces), acts)
}

/// As [`live`], with preferences enabled.
fn live_preferring(acts: &History, seed: u64) -> Simulation {
    lived(Simulation::preferring(seed), acts)
}

fn lived(mut simulation: Simulation, acts: &History) -> Simulation {
    for act in &acts.0 {
        simulation.act(act);
        for _ in 0..simulation.rng.below(8) {
            simulation.step();
        }
    }
    simulation
}

/// A controller that crashes after this many writes, followed by a new one, ends in the same state as one that does not
/// crash.
fn ends_alike_after_a_crash(
    mut simulation: Simulation,
    writes: usize,
) -> Result<(), TestCaseError> {
    simulation.restart();
    let mut crashed = simulation.clone();
    crashed.ends_after = Some(crashed.writes + writes);
    simulation.drain();
    crashed.drain();
    prop_assert_eq!(simulation.cluster.canonical(), crashed.cluster.canonical());
    crashed.is_settled();
    Ok(())
}

/// When all Links and members are deleted, no object of ours is left.
fn leaves_nothing(mut simulation: Simulation, restarts: bool) -> Result<(), TestCaseError> {
    simulation.drain();
    simulation.part();
    if restarts {
        simulation.restart();
    }
    simulation.drain();
    prop_assert_eq!(simulation.ours(), Vec::<String>::new());
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn after_any_history_the_enqueued_keys_are_enough(
        acts in history(14),
        seed: u64,
        max_namespaces in 0usize..3,
    ) {
        let mut simulation = live(&acts, seed, max_namespaces);
        simulation.drain();
        simulation.is_settled();
    }

    #[test]
    fn a_name_with_many_claims_is_passed_on_when_it_is_free(acts in crowd(16), seed: u64) {
        let mut simulation = live(&acts, seed, 0);
        simulation.drain();
        simulation.is_settled();
    }

    #[test]
    fn after_drains_the_enqueued_keys_are_enough(
        acts in drains(14),
        seed: u64,
    ) {
        let mut simulation = live(&acts, seed, 0);
        simulation.drain();
        simulation.is_settled();
    }

    /// Each write is checked: see `last_member_stays` in simulation/checks.rs.
    #[test]
    fn a_federated_service_that_a_cluster_could_serve_is_never_deleted_or_emptied(
        acts in last_members(16),
        seed: u64,
    ) {
        let mut simulation = live(&acts, seed, 0);
        simulation.drain();
        simulation.is_settled();
        simulation.is_served();
    }

    #[test]
    fn with_preferences_the_enqueued_keys_are_enough(
        acts in preferences(14),
        seed: u64,
    ) {
        let mut simulation = live_preferring(&acts, seed);
        simulation.drain();
        simulation.is_settled();
    }

    #[test]
    fn with_preferences_a_crash_does_not_change_the_end_state(
        acts in preferences(14),
        seed: u64,
        writes in 0usize..12,
    ) {
        ends_alike_after_a_crash(live_preferring(&acts, seed), writes)?;
    }

    #[test]
    fn no_route_is_left_when_all_links_and_members_are_gone(
        acts in preferences(14),
        seed: u64,
        restarts: bool,
    ) {
        leaves_nothing(live_preferring(&acts, seed), restarts)?;
    }

    #[test]
    fn the_end_state_does_not_depend_on_the_order_of_keys(
        acts in history(14),
        seed: u64,
        other: u64,
    ) {
        let mut simulation = live(&acts, seed, 0);
        simulation.restart();
        let mut again = simulation.clone();
        again.rng = Rng::new(other);
        simulation.drain();
        again.drain();
        prop_assert_eq!(simulation.cluster.canonical(), again.cluster.canonical());
    }

    #[test]
    fn a_crash_between_any_two_writes_does_not_change_the_end_state(
        acts in history(14),
        seed: u64,
        writes in 0usize..12,
    ) {
        ends_alike_after_a_crash(live(&acts, seed, 0), writes)?;
    }

    #[test]
    fn the_end_state_does_not_depend_on_earlier_objects(acts in plain_history(14), seed: u64) {
        let mut simulation = live(&acts, seed, 0);
        // A new cluster that is named stays, and another one waits.
        simulation.state.config.join_delay = Duration::ZERO;
        simulation.furnish();
        simulation.restart();
        simulation.drain();
        let mut anew = simulation.emptied();
        anew.drain();
        prop_assume!(simulation.is_in_line());
        prop_assert_eq!(simulation.cluster.canonical(), anew.cluster.canonical());
    }

    #[test]
    fn slices_that_people_changed_are_repaired(
        acts in plain_history(14),
        seed: u64,
        edits in prop::collection::vec((0usize..8, slice_edit()), 1..4),
    ) {
        let mut simulation = live(&acts, seed, 0);
        simulation.furnish();
        simulation.drain();
        prop_assume!(!simulation.has_orphans());
        let before = simulation.cluster.canonical();
        for (pick, edit) in edits {
            simulation.edit(pick, edit);
        }
        simulation.drain();
        prop_assert_eq!(simulation.cluster.canonical(), before);
        simulation.is_settled();
    }

    #[test]
    fn nothing_of_ours_is_left_when_all_links_and_members_are_gone(
        acts in history(14),
        seed: u64,
        restarts: bool,
    ) {
        leaves_nothing(live(&acts, seed, 0), restarts)?;
    }

    #[test]
    fn existing_objects_stay_when_the_limit_leaves_out_their_source(
        acts in plain_history(14),
        seed: u64,
        link in 0..LINK_NAMES.len(),
        limited in limited(),
        restarts: bool,
    ) {
        let mut simulation = live(&acts, seed, 0);
        // Without endpoints, a headless Service may have no mirror yet. Then another object could take its name while
        // the limit leaves it out.
        simulation.furnish();
        simulation.drain();
        let before = simulation.cluster.canonical();
        simulation.limit(LINK_NAMES[link], limited);
        if restarts {
            simulation.restart();
        }
        simulation.drain();
        prop_assert_eq!(&simulation.cluster.canonical(), &before);
        simulation.is_settled();
        // The limit omits nothing any more.
        simulation.limit(LINK_NAMES[link], Limited::No);
        simulation.drain();
        prop_assert_eq!(&simulation.cluster.canonical(), &before);
        simulation.is_settled();
    }

    #[test]
    fn a_cluster_that_confirms_nothing_delays_only_its_own_leave(
        acts in memberships(14),
        seed: u64,
        silent in 0..CLUSTERS.len(),
    ) {
        let silent = CLUSTERS[silent];
        let mut simulation = lived(Simulation::with_silent(silent, seed), &acts);
        simulation.drain();
        simulation.is_settled();
        let before = simulation.shares_beside(silent);
        simulation.answers_again();
        simulation.drain();
        simulation.is_settled();
        let after = simulation.shares_beside(silent);
        for (id, (form, shares)) in &before {
            // If the cluster was the last one behind a gateway, the Service changes its form now.
            if let Some((now, others)) = after.get(id) && now == form {
                prop_assert_eq!(shares, others, "of {:?}", id);
            }
        }
    }

    #[test]
    fn while_clusters_are_away_their_gateways_are_followed(
        acts in history(14),
        seed: u64,
        link in 0..LINK_NAMES.len(),
        addresses in addresses(),
        liveness in liveness(),
    ) {
        let mut simulation = live(&acts, seed, 0);
        simulation.drain();
        let before = simulation.cluster.identities();
        let existing = simulation.cluster.uids();
        let mut stayed = simulation.clone();
        stayed.restart();
        simulation.restart();
        simulation.lose();
        for simulation in [&mut simulation, &mut stayed] {
            simulation.act(&Operation::Gateway(link, addresses, liveness));
            simulation.drain();
        }
        simulation.gateways_are_followed();
        let after = simulation.cluster.identities();
        for (what, uid) in &before {
            prop_assert_eq!(after.get(what), Some(uid), "{}", what);
        }
        // A Service that lost our annotation gets it back with its slices: nothing is new but the annotation.
        prop_assert!(after.values().all(|uid| existing.contains(uid)), "{:?}", after);
        simulation.find();
        simulation.drain();
        simulation.is_settled();
        prop_assert_eq!(simulation.cluster.canonical(), stayed.cluster.canonical());
    }

    #[test]
    fn a_link_that_becomes_invalid_removes_nothing(
        acts in history(14),
        seed: u64,
        link in 0..LINK_NAMES.len(),
        form in broken_form(),
        restarts: bool,
    ) {
        let mut simulation = live(&acts, seed, 0);
        simulation.drain();
        let before = simulation.cluster.identities();
        prop_assume!(simulation.spoil(LINK_NAMES[link], form));
        if restarts {
            simulation.restart();
        }
        simulation.drain();
        simulation.is_settled();
        let after = simulation.cluster.identities();
        for (what, uid) in &before {
            prop_assert_eq!(after.get(what), Some(uid), "{}", what);
        }
    }

    #[test]
    fn a_name_that_is_denied_delays_nothing_else(
        acts in history(14),
        seed: u64,
        denied in prop::collection::vec(local_name(), 1..4),
    ) {
        let mut simulation = lived(Simulation::denying(denied, seed), &acts);
        simulation.drain();
        simulation.only_denied_writes_are_left();
    }

    #[test]
    fn a_cluster_ip_never_passes_to_another_service(acts in history(10), seed: u64) {
        let mut simulation = Simulation::new(seed, 0);
        for act in &acts.0 {
            let before = simulation.cluster.identities();
            let turns = simulation.turns(act);
            simulation.act(act);
            simulation.drain();
            if turns || act.is_meddling() {
                continue;
            }
            for (what, uid) in simulation.cluster.identities() {
                if let Some(known) = before.get(&what) {
                    prop_assert_eq!(known, &uid, "{}", what);
                }
            }
        }
    }
}

/// A valid Link with a gateway and no special settings.
fn link_of(cluster: usize) -> LinkMade {
    LinkMade {
        cluster,
        created: 0,
        form: Form::Valid,
        gateway: true,
        probe: false,
        headless: false,
        allowed: Allowed::All,
        federation: Federation::Any,
        through: FederatedThrough::Discovery,
        api: ApiServer::Direct,
        drained: false,
        prefers: 0,
    }
}

/// A Service in gateway mode.
fn exported() -> ServiceMade {
    ServiceMade {
        export: 1,
        member: false,
        form: 0,
        ports: 0,
        label: 0,
        prefers: 0,
        to: 0,
    }
}

#[test]
fn taking_over_from_linkerds_service_mirror_leaves_linkerd_its_endpoints() {
    let mut simulation = Simulation::new(7, 0);
    for act in [
        Operation::Remote(0, 0, 0, Some(exported())),
        Operation::Slice(0, 0, 0, 0, Some(vec![(2, true)])),
        Operation::Legacy(0, 0, 0, false),
        Operation::Link(0, Some(link_of(0))),
    ] {
        simulation.act(&act);
    }
    simulation.drain();
    simulation.is_settled();
    assert!(simulation.cluster.endpoints.is_empty());
    assert_eq!(simulation.cluster.slices.len(), 1);
}

#[test]
fn a_cluster_whose_mirrors_are_named_like_slices_of_federated_services_is_mirrored() {
    for first in [0, 1] {
        let mut simulation = Simulation::new(7, 0);
        let member = ServiceMade {
            export: 0,
            member: true,
            ..exported()
        };
        let gateway = LinkMade {
            through: FederatedThrough::Gateway,
            ..link_of(0)
        };
        let mut acts = [
            // Slices of `a-federated` through the gateway of `c`.
            Operation::Remote(0, 0, 0, Some(member)),
            // The mirror of `a` of `federated-c`.
            Operation::Remote(3, 0, 0, Some(exported())),
        ];
        acts.rotate_left(first);
        simulation.act(&Operation::Link(0, Some(gateway)));
        simulation.act(&Operation::Link(1, Some(link_of(3))));
        for cluster in [0, 3] {
            simulation.act(&Operation::Slice(cluster, 0, 0, 0, Some(vec![(2, true)])));
        }
        for act in &acts {
            simulation.act(act);
            simulation.drain();
        }
        simulation.is_settled();
        assert_eq!(simulation.cluster.slices.len(), 2);
    }
}

#[test]
fn a_namespace_created_for_one_cluster_serves_another_at_its_limit() {
    let (first, second) = (0, 2);
    let mut simulation = Simulation::new(7, 1);
    for acts in [
        (0..2)
            .map(|link| Operation::Link(link, Some(link_of(link))))
            .collect(),
        // One namespace is created for the first cluster, which is its limit. A second namespace is missing.
        vec![Operation::Namespace(first, None)],
        vec![Operation::Remote(0, first, 0, Some(exported()))],
        vec![Operation::Remote(0, second, 0, Some(exported()))],
        // The second namespace is created for the second cluster.
        vec![Operation::Remote(1, second, 0, Some(exported()))],
    ] {
        for act in &acts {
            simulation.act(act);
        }
        simulation.drain();
    }
    simulation.is_settled();
    let mirrors = simulation.cluster.services.len();
    assert_eq!(mirrors, 3, "{:?}", simulation.cluster.services.keys());
}
