//! The networks of a cluster's Pods, and whether another cluster's Pods have addresses of them. Pure.

use std::net::IpAddr;

use ipnet::IpNet;

/// What a cluster tells about the networks of its Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodNetworks {
    /// The networks that its Nodes tell.
    pub networks: Vec<IpNet>,
    /// The addresses of some of its Pods.
    pub own: Vec<IpAddr>,
}

impl PodNetworks {
    /// Whether Pods have addresses of these networks. Many network plugins ignore what a Node says.
    pub fn in_force(&self) -> bool {
        let is_known = |address: &IpAddr| self.network_of(address).is_some();
        !self.own.is_empty() && self.own.iter().all(is_known)
    }

    /// The first of the addresses of another cluster that is in one of these networks.
    pub fn overlap<'a>(
        &self,
        mut others: impl Iterator<Item = &'a IpAddr>,
    ) -> Option<(&'a IpAddr, &IpNet)> {
        others.find_map(|address| Some((address, self.network_of(address)?)))
    }

    fn network_of(&self, address: &IpAddr) -> Option<&IpNet> {
        self.networks.iter().find(|net| net.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_count_only_if_pods_have_addresses_of_them() {
        for (own, in_force) in [
            (&["10.1.0.7", "10.1.1.7"][..], true),
            (&[], false),
            (&["10.1.0.7", "192.168.3.1"], false),
        ] {
            let networks = PodNetworks {
                networks: vec![
                    "10.1.0.0/24".parse().unwrap(),
                    "10.1.1.0/24".parse().unwrap(),
                ],
                own: own.iter().map(|text| text.parse().unwrap()).collect(),
            };
            assert_eq!(networks.in_force(), in_force, "{own:?}");
            let others = ["10.2.0.1", "10.1.1.9"].map(|text| text.parse().unwrap());
            let (address, network) = networks.overlap(others.iter()).unwrap();
            assert_eq!(format!("{address} {network}"), "10.1.1.9 10.1.1.0/24");
            assert_eq!(networks.overlap(others[..1].iter()), None);
        }
    }
}
