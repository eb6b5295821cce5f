//! The addresses at which a gateway is reached, and those that are refused.

use std::{borrow::Cow, net::IpAddr};

use crate::mirror::{
    state::{State, remote::GatewayState},
    target::{
        Gateway,
        networks::{Refused, refusal},
    },
};

/// The addresses of a gateway, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach<'a> {
    /// Those that are used. None are where all are refused.
    pub addresses: Cow<'a, [IpAddr]>,
    /// Those that are not.
    pub refused: Vec<Refused>,
}

impl State {
    /// The addresses of a gateway, judged; `None` while none is known.
    pub fn reach<'a>(&self, gateway: &Gateway, state: &'a GatewayState) -> Option<Reach<'a>> {
        let known = state.addresses.as_deref();
        let known = known.filter(|known| !known.is_empty())?; // an empty answer says as little as none
        let own = gateway.networks.as_deref();
        let why = |address: &IpAddr| refusal(*address, own, &self.networks);
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
