//! Kinds of hostile behaviour of a target cluster, and the expected status of a Link to it.

use linkerd_mc::api::link::LinkStatus;

use super::server::{FORGED, HUGE_LIST};
use crate::support::links::condition;

/// A kind of behaviour. Its name is also the name of the Link, the target cluster and the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conduct {
    /// Lists are empty. Then watches send Services and `EndpointSlices` with new names, without end.
    EndlessAdded,
    /// Lists begin, continue with a blank now and then, and never end. All other requests are answered.
    DrippingLists,
    /// Services are withdrawn and exported again, and a GET of one of them is never answered.
    HungGets,
    /// Like [`Self::HungGets`], but each GET is refused with a different text, with line breaks and escape sequences.
    RefusedGets,
    /// All watches and half of the lists are refused like these GETs, with different status codes.
    RefusedLists,
    /// Services have nearly 256 KiB of annotations. Pages have 60 MiB, and half of them twice as much if the client
    /// asks for it. Watches of Services are refused with the status 410, so the client lists again.
    HugePages,
    /// Services have 200 KiB of annotations. A label or an annotation of one of them changes 100 times a second.
    GiantAnnotations,
    /// Labels and annotations of Services change 200 times a second, and some are withdrawn and exported again.
    LabelStorm,
}

impl Conduct {
    pub(super) const ALL: [Self; 8] = [
        Self::EndlessAdded,
        Self::DrippingLists,
        Self::HungGets,
        Self::RefusedGets,
        Self::RefusedLists,
        Self::HugePages,
        Self::GiantAnnotations,
        Self::LabelStorm,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::EndlessAdded => "endless-added",
            Self::DrippingLists => "dripping-lists",
            Self::HungGets => "hung-gets",
            Self::RefusedGets => "refused-gets",
            Self::RefusedLists => "refused-lists",
            Self::HugePages => "huge-pages",
            Self::GiantAnnotations => "giant-annotations",
            Self::LabelStorm => "label-storm",
        }
    }

    /// Parses a comma-separated list of names.
    pub(super) fn named(list: &str) -> Vec<Self> {
        let find = |name: &str| {
            let found = Self::ALL.into_iter().find(|conduct| conduct.name() == name);
            found.unwrap_or_else(|| panic!("there is no conduct `{name}`"))
        };
        list.split(',').map(find).collect()
    }

    /// Describes what is wrong in the status of a Link to such a cluster; `None` if nothing is.
    pub(super) fn is_untrue(self, status: &LinkStatus) -> Option<String> {
        let says =
            |type_: &str| condition(status, type_).map(|c| (c.status.as_str(), c.message.as_str()));
        let (ready, connected) = (says("Ready"), says("Connected"));
        let is_true = match self {
            Self::EndlessAdded | Self::GiantAnnotations | Self::LabelStorm => {
                connected.is_some_and(|(status, _)| status == "True")
            }
            Self::HungGets | Self::RefusedGets => {
                connected.is_some_and(|(status, _)| status == "True") && status.mirrored > Some(0)
            }
            Self::DrippingLists => ready.is_some_and(|(status, _)| status == "False"),
            // Either the Link is not ready, or its status says what happened to each Service.
            Self::HugePages => {
                let all = i64::try_from(HUGE_LIST).unwrap();
                let told =
                    status.mirrored.unwrap_or_default() + status.unhealthy.unwrap_or_default();
                let says_limit = says("LimitExceeded").is_some();
                ready.is_some_and(|(status, _)| status == "False" || says_limit || told == all)
            }
            Self::RefusedLists => connected
                .is_some_and(|(status, message)| status == "False" && message.contains(FORGED)),
        };
        let lines = status.conditions.iter().map(|c| &c.message);
        let is_clean = lines.clone().all(|m| !m.contains(char::is_control));
        let is_brief = lines.clone().all(|m| m.chars().count() <= 500);
        (!is_true || !is_clean || !is_brief)
            .then(|| format!("{}: {:#?}", self.name(), status.conditions))
    }
}
