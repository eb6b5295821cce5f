//! The form that a federated Service should have.

use std::collections::BTreeSet;

use crate::{
    api::k8s::Service,
    mirror::{
        ownership::membership::{Form, Linked, Part, Parts},
        state::State,
        target::policy::FederatedThrough,
    },
};

/// The form that a federated Service should have. It changes from discovery to slices only once it is known which
/// members have endpoints: before, some of these endpoints would be missing.
pub(crate) fn form(
    state: &State,
    actual: Option<&Service>,
    parts: &Parts<'_>,
    tokens: &BTreeSet<String>,
    has_local_member: bool,
) -> Form {
    let takes_part = |(cluster, linked): &(&&str, &Linked<'_>)| match linked.part {
        // Drained and leaving clusters count, so that the form stays as long as they are named.
        Part::Member(_) | Part::Drained(_) | Part::Leaving => true,
        Part::Unseen => tokens.contains(**cluster),
        Part::Refused(_) | Part::None => false,
    };
    let members = || parts.iter().filter(takes_part);
    let was = actual.map(Form::of);
    let was_slices = was == Some(Form::Slices);
    let through_gateway = |(cluster, linked): (&&str, &Linked<'_>)| {
        let has_slices = || was_slices && tokens.contains(*cluster);
        linked.target.federated_through == FederatedThrough::Gateway
            && (!linked.target.lacks_gateway() || has_slices())
    };
    // A Link that cannot be read now may ask for either form.
    let unknown =
        |cluster: &String| !parts.contains_key(cluster.as_str()) && state.may_keep(cluster);
    let by_slices = members().any(through_gateway) || was_slices && tokens.iter().any(unknown);
    if !by_slices {
        return Form::Discovery;
    }
    let is_known = |linked: &Linked<'_>| match linked.part {
        Part::Member(seen) => linked.target.gateway.is_none() || linked.is_backed(seen).is_some(),
        _ => true,
    };
    let pods_are_known = !has_local_member || state.member_slices().is_some();
    let all_are_known = || members().all(|(_, linked)| is_known(linked));
    if was == Some(Form::Discovery) && !(pods_are_known && all_are_known()) {
        return Form::Discovery;
    }
    Form::Slices
}
