//! The addresses at which a gateway is reached, and its addresses that are refused.

use std::{borrow::Cow, net::IpAddr};

use crate::mirror::{
    state::{State, remote::GatewayState},
    target::{
        Gateway,
        networks::{Refused, refusal},
    },
};

/// The addresses of a gateway, split into those that are used and those that are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach<'a> {
    /// Addresses that are used; empty if all are refused.
    pub addresses: Cow<'a, [IpAddr]>,
    /// Addresses that are not used.
    pub refused: Vec<Refused>,
}

impl State {
    /// Checks the addresses of a gateway; `None` while none is known, or the networks of this cluster are not.
    pub fn reach<'a>(&self, gateway: &Gateway, state: &'a GatewayState) -> Option<Reach<'a>> {
        let known = state.addresses.as_deref();
        let known = known.filter(|known| !known.is_empty())?; // an empty list is as good as none
        let (own, local) = (gateway.networks.as_deref(), self.local.as_ref()?);
        let why = |address: &IpAddr| refusal(*address, own, &local.networks);
        let refused: Vec<Refused> = known
            .iter()
            .filter_map(|address| {
                why(address).map(|why| Refused {
                    address: *address,
                    why,
                })
            })
            .collect();
        let addresses = if refused.is_empty() {
            Cow::Borrowed(known)
        } else {
            let used = known.iter().filter(|address| why(address).is_none());
            Cow::Owned(used.copied().collect())
        };
        Some(Reach { addresses, refused })
    }

    /// The addresses of a Link's gateway that are refused.
    pub fn refused(&self, link: &str) -> Vec<Refused> {
        let reach = self.probe_link(link).and_then(|(target, entry)| {
            let gateway = target.gateway.as_ref()?;
            self.reach(gateway, &entry.gateway)
        });
        reach.map(|reach| reach.refused).unwrap_or_default()
    }
}
