//! The kinds of operations.

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    KillController,
    ReplaceController,
    SwitchGated,
    SwitchFlat,
    SwitchForm,
    OwnMember,
    OtherMember,
    ReplaceHeadless,
    ReplacePod,
    UnreadyPod,
    LinkAgain,
    Unlink,
    UnlinkByHand,
    Rotate,
    TargetAway,
    TargetRestarted,
    SourceRestarted,
    DestinationRestarted,
    SlicesDeleted,
    MirrorsChanged,
    GatewayLost,
    GatewayKilled,
    DnsAway,
    DefinitionReplaced,
    HandedBack,
}

impl Operation {
    pub(super) const ALL: [Self; 25] = [
        Self::KillController,
        Self::ReplaceController,
        Self::SwitchGated,
        Self::SwitchFlat,
        Self::SwitchForm,
        Self::OwnMember,
        Self::OtherMember,
        Self::ReplaceHeadless,
        Self::ReplacePod,
        Self::UnreadyPod,
        Self::LinkAgain,
        Self::Unlink,
        Self::UnlinkByHand,
        Self::Rotate,
        Self::TargetAway,
        Self::TargetRestarted,
        Self::SourceRestarted,
        Self::DestinationRestarted,
        Self::SlicesDeleted,
        Self::MirrorsChanged,
        Self::GatewayLost,
        Self::GatewayKilled,
        Self::DnsAway,
        Self::DefinitionReplaced,
        Self::HandedBack,
    ];

    /// Whether Linkerd loses its watches of the target. They come back one by one, each after a delay that doubles with
    /// each attempt.
    pub(super) const fn cuts_watches(self) -> bool {
        matches!(self, Self::TargetAway | Self::TargetRestarted)
    }

    /// Whether Linkerd's destination controller starts anew. It then decides again for each stream how it finds
    /// endpoints.
    pub(super) const fn restarts_linkerd(self) -> bool {
        matches!(self, Self::DestinationRestarted | Self::Rotate)
    }
}
