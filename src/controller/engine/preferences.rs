//! Metrics of preferences: how many federated Services send requests to each cluster first, or leave it out.

mod counts;

pub(super) use self::counts::Preferences;
use self::counts::Taken;
use super::state::Engine;
use crate::{
    api::{
        labels as l,
        preference::{FailedOver, has_member},
    },
    mirror::Key,
};

impl Engine {
    /// Records which clusters receive the requests to a federated Service, once its desired state is reached.
    pub(super) fn note_preference(&mut self, key: &Key) {
        let Key::Federated { namespace, service } = key else {
            return;
        };
        let taken = self
            .state
            .federated(namespace, service)
            .and_then(|service| {
                let annotation = |key: &str| service.metadata.annotations.get(key);
                let preference = annotation(l::PREFER)?.parse().ok()?;
                let failed_over = annotation(l::FAILED_OVER).map(FailedOver::read);
                Some(Taken::new(
                    &preference,
                    &failed_over.unwrap_or_default(),
                    |place| has_member(annotation, place),
                ))
            });
        for (place, [active, left_out]) in self.preferences.note(key, taken) {
            // Only Links can create series, so that no remote object can.
            if place
                .cluster()
                .is_none_or(|cluster| self.state.link(cluster).is_some())
            {
                self.metrics.preferred(&place.to_string(), active, left_out);
            }
        }
    }
}
