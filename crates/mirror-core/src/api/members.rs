//! The members of a federated Service, from its annotations.

use super::labels as l;

/// The annotations for members, remote and local: Linkerd's, and ours for a Service that is made of slices.
pub const MEMBERS: [[&str; 2]; 2] = [
    [l::REMOTE_DISCOVERY, l::LOCAL_DISCOVERY],
    [l::MEMBERS, l::LOCAL_MEMBER],
];

/// The members in other clusters, as pairs of Service and cluster. `annotation` returns the value of an annotation.
pub fn remote_members<'a>(
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let lists = MEMBERS.map(|[remote, _]| annotation(remote));
    lists
        .into_iter()
        .flatten()
        .flat_map(|list| list.split(','))
        .filter_map(|member| member.trim().split_once('@'))
        .filter(|(_, cluster)| !cluster.is_empty())
}

/// The member in the local cluster.
pub fn local_member<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Option<&'a str> {
    let names = MEMBERS.map(|[_, local]| annotation(local));
    names.into_iter().flatten().find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_from_either_kind_of_annotation() {
        for [remote, local] in MEMBERS {
            let annotation = |key: &str| match key {
                _ if key == remote => Some("web@east, web@west,,odd,x@"),
                _ if key == local => Some("web"),
                _ => None,
            };
            let found: Vec<_> = remote_members(annotation).collect();
            assert_eq!(found, [("web", "east"), ("web", "west")]);
            assert_eq!(local_member(annotation), Some("web"));
        }
        assert_eq!(remote_members(|_| None).count(), 0);
        assert_eq!(local_member(|_| Some("")), None);
    }
}
