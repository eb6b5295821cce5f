//! Checks whether Pods of target clusters can be reached without a gateway.

use mirror_core::api::{k8s::Service, labels, members::remote_members};

use super::{
    rule::Verdict,
    targets::{NOT_CHECKED, direct_links},
};
use crate::clusters::{credentials::needs_linkerd, snapshot::FullSnapshot};

/// The networks of Pods may not overlap where Pods connect to Pods. Where none do yet, this is only a warning.
pub fn pod_networks(snapshot: &FullSnapshot) -> Verdict {
    let mut flat = direct_links(snapshot)
        .filter(|link| needs_linkerd(link))
        .peekable();
    if flat.peek().is_none() {
        return Verdict::Skip;
    }
    let own = match &snapshot.pod_networks {
        Err(why) => return Verdict::warn(format!("not checked, because {why}")),
        // Most network plugins have other networks, and nothing tells which.
        Ok(own) if !own.in_force() => return Verdict::Skip,
        Ok(own) => own,
    };
    let (mut problems, mut is_used) = (Vec::new(), false);
    for link in flat {
        let cluster = link.cluster();
        let addresses = match link.target.as_ref() {
            Some(Ok(target)) => target
                .pods
                .as_ref()
                .map_err(|why| format!("not checked, because {why}")),
            _ => Err(NOT_CHECKED.to_owned()),
        };
        match addresses.map(|addresses| own.overlap(addresses.iter())) {
            Err(why) => problems.push(format!("{cluster}: {why}")),
            Ok(None) => {}
            Ok(Some((address, network))) => {
                let mut mirrors = snapshot.mirrors.iter().flatten();
                let mirror = mirrors.find(|mirror| is_flat(mirror, cluster));
                is_used |= mirror.is_some();
                let effect = match mirror {
                    Some(mirror) => format!(
                        "requests to its Pods, such as those of Service {}, never leave this cluster",
                        mirror.metadata.resource_id()
                    ),
                    None => {
                        "mirrors and federated Services without a gateway will not work".to_owned()
                    }
                };
                problems.push(format!(
                    "{cluster}: {address} of a Pod there is in {network}, a network of this cluster's own Pods, so {effect}; \
                     export through the gateway, or give a cluster another Pod network (docs/network.md)"
                ));
            }
        }
    }
    let problems: Vec<_> = problems.into_iter().map(Into::into).collect();
    match problems.is_empty() {
        true => Verdict::Pass,
        false if is_used => Verdict::Fail(problems),
        false => Verdict::Warn(problems),
    }
}

/// Whether Linkerd leads requests to this Service to Pods of this cluster.
fn is_flat(mirror: &Service, cluster: &str) -> bool {
    let listed = |key: &str| {
        let list = mirror.metadata.annotations.get(key);
        list.filter(|_| key == labels::REMOTE_DISCOVERY)
    };
    mirror.metadata.label(labels::REMOTE_DISCOVERY) == cluster
        || remote_members(listed).any(|(_, member)| member == cluster)
}
