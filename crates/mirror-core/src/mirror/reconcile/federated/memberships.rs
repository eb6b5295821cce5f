//! The memberships that clusters have in a federated Service: what is known of each, and the effect of the form and of
//! drains.
//!
//! A drain moves requests to other members: drained clusters leave federated Services that are known to have another
//! member. If there is no other member, the drained one stays, and with it the Service and its ClusterIP. If all clusters
//! are drained, those that are members stay. If none is a member, all join.

use super::members::FederatedService;
use crate::{
    api::k8s::Service,
    mirror::{
        names::member_name,
        outcome::{Confirmed, Outcome, Problem, Reason},
        ownership::membership::{ClusterMembership, Form, Membership, Memberships, membership},
        state::State,
        target::{
            Target,
            drain::{self, DrainState},
            policy::FederatedThrough,
        },
    },
};

impl<'a> FederatedService<'a> {
    /// The form that it should have, and what is known of the memberships of all clusters. `confirmed`: the clusters that
    /// have confirmed that they no longer have a member.
    pub(super) fn memberships(&self, confirmed: Confirmed<'_>) -> (Form, Memberships<'a>) {
        let (state, has_local_member) = (self.state, self.local.is_some());
        let was = self.form_until_now();
        let was_slices = was == Some(Form::Slices);
        let memberships = state.active().map(|(target, entry)| {
            let cluster = target.cluster.as_str();
            let link = (target, entry);
            let membership =
                match membership(state, link, self.namespace, self.service, has_local_member) {
                    Membership::None
                        if self.named.contains(cluster) && !confirmed.covers(cluster) =>
                    {
                        Membership::Leaving
                    }
                    membership => membership,
                };
            let mut linked = ClusterMembership {
                target,
                entry,
                membership,
            };
            // It has no place in either form, so it does not keep out a drained cluster.
            if target.lacks_gateway() && !was_slices {
                linked.needs_gateway();
            }
            (cluster, linked)
        });
        let mut memberships: Memberships<'_> = memberships.collect();
        if was == Some(Form::Discovery) {
            self.keep_out_drained(&mut memberships);
        }
        // Drained clusters count, so that a drain does not change the form.
        let (form, obstacle) = self.form(&memberships);
        for (cluster, linked) in &mut memberships {
            let (lacks_gateway, takes_part) =
                (linked.target.lacks_gateway(), self.named.contains(cluster));
            let needs_gateway = lacks_gateway || linked.target.lacks_discovery().is_some();
            // A cluster whose Link lost its gateway keeps its endpoints, as mirrors do.
            let keeps = needs_gateway && was_slices && takes_part && form == Form::Slices;
            if (form == Form::Slices || lacks_gateway) && !keeps {
                linked.needs_gateway();
            }
            if form == Form::Discovery && !takes_part {
                linked.needs_discovery();
            }
            // A new cluster waits for the form in which it can be reached, and until Linkerd knows it.
            let needs_slices = linked.target.federated_through == FederatedThrough::Gateway;
            let waits = form == Form::Discovery
                && !takes_part
                && (needs_slices || self.state.is_new(linked.entry));
            if waits && matches!(linked.membership, Membership::Member(_)) {
                let obstacle = obstacle.clone().filter(|_| needs_slices);
                linked.membership = Membership::Waiting(obstacle);
            }
        }
        self.take_out_drained(form, &mut memberships);
        (form, memberships)
    }

    /// The form that it should have, and what has to change before it turns to slices, unless that is expected within
    /// moments. It turns only once it is known which members have endpoints, and where: before, some of these endpoints
    /// would be missing. A cluster that is not listed, or has too many slices, delays no other: its endpoints count as
    /// ready.
    fn form(&self, memberships: &Memberships<'_>) -> (Form, Option<Problem>) {
        let takes_part =
            |(cluster, linked): &(&&str, &ClusterMembership<'_>)| match linked.membership {
                // Drained and leaving clusters count, so that the form stays as long as they are named.
                Membership::Member(_) | Membership::Leaving => true,
                Membership::Drained(_) | Membership::Unseen => self.named.contains(**cluster),
                Membership::Waiting(_) | Membership::Refused(_) | Membership::None => false,
            };
        let members = || memberships.iter().filter(takes_part);
        let was = self.form_until_now();
        let was_slices = was == Some(Form::Slices);
        // Such a member would lose its place to endpoints of a cluster that leaves, or whose Link lost its gateway.
        let needs_discovery = |(cluster, linked): (&&str, &ClusterMembership<'_>)| {
            linked.target.is_only_discovered()
                && self.named.contains(*cluster)
                && !matches!(linked.membership, Membership::Leaving)
        };
        let any_needs_discovery = members().any(needs_discovery);
        let through_gateway = |(cluster, linked): (&&str, &ClusterMembership<'_>)| {
            let target = linked.target;
            let asks_for_slices = target.federated_through == FederatedThrough::Gateway;
            let is_served =
                target.gateway.is_some() && !matches!(linked.membership, Membership::Leaving);
            // Linkerd may not discover this member, so it would lose its endpoints.
            let keeps_slices = was_slices
                && self.named.contains(*cluster)
                && (asks_for_slices || target.lacks_discovery().is_some());
            is_served && asks_for_slices || keeps_slices && (is_served || !any_needs_discovery)
        };
        // A Link that cannot be read now may ask for either form.
        let unknown =
            |cluster: &&str| !memberships.contains_key(*cluster) && self.state.may_keep(cluster);
        let unread = self.named.iter().copied().find(unknown);
        let by_slices = members().any(through_gateway) || was_slices && unread.is_some();
        if !by_slices {
            return (Form::Discovery, None);
        }
        if was != Some(Form::Discovery) {
            return (Form::Slices, None);
        }
        let unread = unread.map(|cluster| format!("it is known how cluster {cluster} is reached"));
        let change = unread.or_else(|| {
            let (cluster, _) = members().find(|member| self.would_lose_endpoints(*member))?;
            Some(format!(
                "an address of the gateway of cluster {cluster} can be used, or {cluster} is drained"
            ))
        });
        if let Some(change) = change {
            let message = format!("the cluster joins once {change}");
            return (Form::Discovery, Some(Problem::new(Reason::Error, message)));
        }
        let is_known = |linked: &ClusterMembership<'_>| match linked.membership {
            Membership::Member(seen) => {
                linked.target.gateway.is_none()
                    || linked.is_backed(seen).is_some()
                    || linked.omits_slices_of(seen)
            }
            _ => true,
        };
        let pods_are_known = self.local.is_none() || self.state.member_slices().is_some();
        if pods_are_known && members().all(|(_, linked)| is_known(linked)) {
            (Form::Slices, None)
        } else {
            (Form::Discovery, None)
        }
    }

    /// Whether a member, which Linkerd discovers until now, would have no endpoints in slices, because no address of its
    /// gateway can be used yet. A drained cluster is not needed.
    fn would_lose_endpoints(&self, (cluster, linked): (&&str, &ClusterMembership<'_>)) -> bool {
        let serves = matches!(
            linked.membership,
            Membership::Member(_) | Membership::Unseen
        ) && self.named.contains(*cluster)
            && !self.state.is_drained(linked.target);
        let gateway = linked.target.gateway.as_ref().filter(|_| serves);
        gateway.is_some_and(|gateway| {
            let reach = self.state.gateway_addresses(gateway, &linked.entry.gateway);
            reach.is_none_or(|reach| reach.addresses.is_empty())
        })
    }

    /// A drained cluster joins only if there is no other member. So a Service that has one does not change its form for it.
    fn keep_out_drained(&self, memberships: &mut Memberships<'_>) {
        let joins = |cluster: &str, target: &Target| {
            self.state.is_drained(target) && !self.named.contains(cluster)
        };
        let mut all = memberships.iter();
        if !all.any(|(cluster, linked)| joins(cluster, linked.target))
            || !(self.others_take_part(Form::Discovery, memberships)
                || self.any_has_a_place(memberships))
        {
            return;
        }
        for (cluster, linked) in memberships {
            if let Membership::Member(seen) = linked.membership
                && joins(cluster, linked.target)
            {
                linked.membership = Membership::Drained(seen);
            }
        }
    }

    /// Whether clusters that are not drained have members that can be reached in this form.
    fn others_take_part(&self, form: Form, memberships: &Memberships<'_>) -> bool {
        let is_reached = |target: &Target| match form {
            Form::Discovery => target.lacks_discovery().is_none(),
            Form::Slices => true,
        };
        self.local.is_some()
            || memberships.values().any(|linked| {
                matches!(linked.membership, Membership::Member(_))
                    && !self.state.is_drained(linked.target)
                    && !linked.target.lacks_gateway()
                    && is_reached(linked.target)
            })
    }

    /// Whether any cluster that is named may stay.
    fn any_has_a_place(&self, memberships: &Memberships<'_>) -> bool {
        self.named
            .iter()
            .any(|cluster| match memberships.get(cluster) {
                Some(linked) => matches!(
                    linked.membership,
                    Membership::Member(_) | Membership::Unseen
                ),
                None => self.may_keep(cluster, memberships),
            })
    }

    /// Removes the memberships of drained clusters that are not needed. They leave without confirmation: the Link says that
    /// they are drained, and a cluster under maintenance may not answer.
    fn take_out_drained(&self, form: Form, memberships: &mut Memberships<'_>) {
        let is_drained = |target: &Target| self.state.is_drained(target);
        if !memberships.values().any(|linked| is_drained(linked.target)) {
            return;
        }
        let others_take_part = self.others_take_part(form, memberships);
        let any_has_a_place = self.any_has_a_place(memberships);
        for (cluster, linked) in memberships {
            let (target, membership) = (linked.target, &mut linked.membership);
            if !is_drained(target) {
                continue;
            }
            let has_place = self.named.contains(cluster);
            match membership {
                Membership::Member(seen) if others_take_part || (any_has_a_place && !has_place) => {
                    *membership = Membership::Drained(seen);
                }
                Membership::Unseen if others_take_part && has_place => {
                    *membership =
                        Membership::Refused(Outcome::Failed(left_because_drained(target)));
                }
                Membership::Leaving | Membership::None if others_take_part => {
                    *membership = Membership::Refused(Outcome::Absent);
                }
                _ => {}
            }
        }
    }
}

impl State {
    /// The drain of a Link's cluster, if the cluster is drained and the Link is in charge of it.
    pub fn drain_of(&self, link: &str) -> Option<DrainState> {
        let (target, _) = self.active_link(link)?;
        let until = target.drained_until.filter(|until| *until > self.now)?;
        let mut drain = DrainState {
            until,
            ..DrainState::default()
        };
        let local = self.local.iter();
        for service in local.flat_map(|local| local.mirrors.of_cluster(&target.cluster)) {
            match stays(self, service, &target.cluster) {
                None => {}
                Some(true) => drain.last += 1,
                Some(false) => drain.leaving += 1,
            }
        }
        Some(drain)
    }
}

/// Whether a drained cluster stays in a federated Service; `None` if the Service does not name it as a member.
fn stays(state: &State, actual: &Service, cluster: &str) -> Option<bool> {
    let service = member_name(actual.metadata.name())?;
    let federated = FederatedService::of(state, actual.metadata.namespace(), service);
    if !federated.named.contains(cluster) {
        return None;
    }
    let (_, memberships) = federated.memberships(Confirmed::All);
    let linked = memberships.get(cluster)?;
    Some(matches!(
        linked.membership,
        Membership::Member(_) | Membership::Unseen
    ))
}

/// The problem to report for a member that left because its cluster is drained.
pub(super) fn left_because_drained(target: &Target) -> Problem {
    Problem::new(Reason::Drained, until(target))
}

/// The problem to report for a member that stays although its cluster is drained.
pub(super) fn stays_as_the_last(target: &Target) -> Problem {
    let message = format!(
        "{}, but stays because there is no other member",
        until(target)
    );
    Problem::new(Reason::Drained, message)
}

fn until(target: &Target) -> String {
    let until = target.drained_until.map(drain::until).unwrap_or_default();
    format!("the cluster is drained {until}")
}
