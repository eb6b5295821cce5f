//! The two forms of a federated Service, and which of them it has.

use std::collections::BTreeSet;

use super::{
    super::{policy::FederatedThrough, world::World},
    Linked, Part, Parts, slices,
};
use crate::api::{k8s::Service, members::MEMBERS};

/// How the members of a federated Service are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Linkerd reads the annotations that name them.
    Discovery,
    /// By its `EndpointSlices`.
    Slices,
}

impl Form {
    /// The annotations that name the members: of other clusters, and of the local one.
    pub(super) fn keys(self) -> [&'static str; 2] {
        match self {
            Self::Discovery => MEMBERS[0],
            Self::Slices => MEMBERS[1],
        }
    }

    /// The form of a Service that stands.
    pub(super) fn of(actual: &Service) -> Self {
        let annotations = &actual.metadata.annotations;
        let is_flat = MEMBERS[0].iter().any(|key| annotations.contains_key(key));
        if is_flat {
            Self::Discovery
        } else {
            Self::Slices
        }
    }
}

/// The form that a federated Service should have. From discovery it turns to slices when it is known which of its members
/// have endpoints: until then it would lack those of them that have.
pub(super) fn form(
    world: &World,
    actual: Option<&Service>,
    parts: &Parts<'_>,
    tokens: &BTreeSet<String>,
    has_local_member: bool,
) -> Form {
    let takes_part = |(cluster, linked): &(&&str, &Linked<'_>)| match linked.part {
        Part::Member(_) | Part::Drained(_) => true,
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
    // What a Link that cannot be read now says of it is not known.
    let unknown =
        |cluster: &String| !parts.contains_key(cluster.as_str()) && world.may_keep(cluster);
    let by_slices = members().any(through_gateway) || was_slices && tokens.iter().any(unknown);
    if !by_slices {
        return Form::Discovery;
    }
    let is_known = |linked: &Linked<'_>| match linked.part {
        Part::Member(seen) => {
            linked.target.gateway.is_none() || slices::is_backed(linked.entry, seen).is_some()
        }
        _ => true,
    };
    let pods_are_known = !has_local_member || world.member_slices.is_some();
    let all_are_known = || members().all(|(_, linked)| is_known(linked));
    if was == Some(Form::Discovery) && !(pods_are_known && all_are_known()) {
        return Form::Discovery;
    }
    Form::Slices
}
