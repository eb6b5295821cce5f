//! What goes with a link, or with a change of it.

use hints::prose::counted;
use serde::Serialize;

use crate::linked::Mirrors;

/// Services of the source cluster that are deleted, or that a cluster leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Mirrors that are deleted.
    pub mirrors: usize,
    /// Federated Services without another member, which are deleted.
    #[serde(rename = "federatedServices")]
    pub federated: usize,
    /// Federated Services with other members.
    pub memberships: usize,
}

impl Losses {
    /// What goes with all of a cluster.
    pub fn of(mirrors: &Mirrors) -> Self {
        Self {
            mirrors: mirrors.own.len(),
            federated: mirrors.federated.len(),
            memberships: mirrors.shared.len(),
        }
    }

    /// What is said if they cannot be counted, and why.
    pub fn unknown(why: &str) -> String {
        format!("may delete mirrors: which ones is not known: {why}")
    }

    /// What is done to them, such as `deletes 2 mirrors, with their ClusterIPs, and takes east out of 1 federated
    /// Service`; `None` if there are none.
    pub fn text(&self, cluster: &str) -> Option<String> {
        let mut deleted = Vec::new();
        if self.mirrors > 0 {
            deleted.push(counted(self.mirrors, "mirror"));
        }
        if self.federated > 0 {
            let services = counted(self.federated, "federated Service");
            deleted.push(format!("{services} without another member"));
        }
        let addresses = match self.mirrors + self.federated {
            1 => "its ClusterIP",
            _ => "their ClusterIPs",
        };
        let deletes = format!("deletes {}, with {addresses}", deleted.join(" and "));
        let leaves = format!(
            "takes {cluster} out of {}",
            counted(self.memberships, "federated Service")
        );
        match (deleted.is_empty(), self.memberships) {
            (true, 0) => None,
            (true, _) => Some(leaves),
            (false, 0) => Some(deletes),
            (false, _) => Some(format!("{deletes}, and {leaves}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_is_counted() {
        for (counts, expected) in [
            ([0, 0, 0], None),
            ([1, 0, 0], Some("deletes 1 mirror, with its ClusterIP")),
            (
                [2, 1, 0],
                Some(
                    "deletes 2 mirrors and 1 federated Service without another member, with their ClusterIPs",
                ),
            ),
            (
                [0, 1, 2],
                Some(
                    "deletes 1 federated Service without another member, with its ClusterIP, and takes east out of 2 \
                     federated Services",
                ),
            ),
            ([0, 0, 1], Some("takes east out of 1 federated Service")),
        ] {
            let [mirrors, federated, memberships] = counts;
            let losses = Losses {
                mirrors,
                federated,
                memberships,
            };
            assert_eq!(losses.text("east").as_deref(), expected, "{counts:?}");
        }
    }
}
