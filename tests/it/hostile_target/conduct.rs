//! Ways in which a target cluster can misbehave, and what is true of a Link to it.

use linkerd_mc::api::link::LinkStatus;

use super::server::{FORGED, HUGE_LIST};
use crate::support::links::condition;

/// A way to misbehave. Its name is also that of the Link, the target cluster and the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conduct {
    /// Nothing is listed; then watches bring Services and `EndpointSlices` with ever-new names, without end.
    EndlessAdded,
    /// Lists begin, go on with a blank now and then, and never end. All else is answered.
    DrippingLists,
    /// Services are withdrawn and come back, and who asks for one of them gets no answer.
    HungGets,
    /// The same, and who asks gets a refusal that reads differently each time, with line breaks and escape sequences.
    RefusedGets,
    /// Lists are refused in this way, or watches, with one code or another.
    RefusedLists,
    /// Services have 256 KiB of annotations: pages have 60 MiB, or twice as much if that is asked for. Watches end at once.
    HugePages,
    /// Services have 200 KiB of annotations, which change 100 times a second.
    GiantAnnotations,
    /// Labels and annotations of Services change 200 times a second, and some are withdrawn and exported again.
    LabelStorm,
}

impl Conduct {
    /// All of them.
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

    /// The name of the cluster.
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

    /// Those that are named in a list with commas.
    pub(super) fn named(list: &str) -> Vec<Self> {
        let find = |name: &str| {
            let found = Self::ALL.into_iter().find(|conduct| conduct.name() == name);
            found.unwrap_or_else(|| panic!("there is no conduct `{name}`"))
        };
        list.split(',').map(find).collect()
    }

    /// What is wrong with what a Link's status says of such a cluster, if something is.
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
            // Not in step, or it says what became of each Service.
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
