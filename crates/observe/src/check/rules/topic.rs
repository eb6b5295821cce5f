//! What checks are about, and what has to be known for them.

use self::Topic::{
    Controller, Credentials, Gateways, Installation, Links, Proxies, Services, Targets,
};
use crate::clusters::snapshot::Part;

/// What a group of checks is about. The checks of a topic become known together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// The extension, its CRD, and the Links themselves. After some of its failures, later checks are meaningless.
    Installation,
    /// The controller, and what it needs.
    Controller,
    /// What the controller reports about Links.
    Links,
    /// Gateways of target clusters.
    Gateways,
    /// Mirrors and federated Services.
    Services,
    /// The credentials of Links.
    Credentials,
    /// The proxies of the extension.
    Proxies,
    /// What target clusters answer.
    Targets,
}

impl Topic {
    /// All, in the order in which they are usually known.
    pub const ALL: [Self; 8] = [
        Installation,
        Controller,
        Links,
        Gateways,
        Services,
        Credentials,
        Proxies,
        Targets,
    ];

    /// Its heading.
    pub fn name(self) -> &'static str {
        match self {
            Installation => "installation",
            Controller => "controller",
            Links => "links",
            Gateways => "gateways",
            Services => "services",
            Credentials => "credentials",
            Proxies => "proxies",
            Targets => "target clusters",
        }
    }

    /// What its checks look at, besides the Links.
    pub fn needs(self) -> &'static [Part] {
        match self {
            Installation => &[Part::Installation],
            Controller | Links => &[Part::Controller],
            Gateways | Services => &[Part::Controller, Part::Services],
            Credentials => &[Part::Credentials, Part::Services],
            Proxies => &[Part::Proxies, Part::Controller],
            Targets => &[
                Part::Targets,
                Part::Services,
                Part::Proxies,
                Part::Credentials,
            ],
        }
    }
}
