//! Which Services a target cluster exports to this cluster: it may export a Service to some clusters only.
//!
//! A Service that is not exported to this cluster is treated as one that is not exported. Only the report differs.

use crate::{
    api::{consent::ExportConsent, k8s::Service, labels as l},
    mirror::{
        outcome::{Outcome, Problem, Reason},
        state::State,
        target::{
            Target,
            export::{self, MirrorMode},
        },
    },
};

use super::preferred::preferred_mode;

impl State {
    /// How a Service of a target cluster is mirrored, if at all: as its labels ask, or because a federated Service prefers
    /// the cluster.
    pub fn mode(&self, target: &Target, service: &Service) -> Option<MirrorMode> {
        if self.withheld(target, service).is_some() {
            return None;
        }
        export::mode(target, service).or_else(|| preferred_mode(self, target, service))
    }

    /// Whether a Service of a target cluster is a member of a federated Service.
    pub fn member(&self, target: &Target, service: &Service) -> bool {
        export::member(target, service) && self.withheld(target, service).is_none()
    }

    /// What to report about a Service that is not mirrored.
    pub(crate) fn unexported(&self, target: &Target, service: &Service) -> Outcome {
        let is_selected = export::mode(target, service).is_some();
        self.not_taken(is_selected, target, service)
    }

    /// What to report about a Service that is no member.
    pub(crate) fn no_member(&self, target: &Target, service: &Service) -> Outcome {
        self.not_taken(export::member(target, service), target, service)
    }

    fn not_taken(&self, is_selected: bool, target: &Target, service: &Service) -> Outcome {
        let withheld = self.withheld(target, service).filter(|_| is_selected);
        withheld.map_or(Outcome::Absent, Outcome::Failed)
    }

    /// Why a Service is not exported to this cluster, whatever its labels are; `None` if it may be.
    fn withheld(&self, target: &Target, service: &Service) -> Option<Problem> {
        let annotations = &service.metadata.annotations;
        let cluster = &target.cluster;
        let consent = match ExportConsent::of(|key| annotations.get(key)) {
            Ok(consent) => consent,
            Err(why) => {
                let message = format!(
                    "{cluster} exports it to no cluster: invalid annotation {}: {why}",
                    l::EXPORT_TO
                );
                return Some(Problem::new(Reason::UnclearExport, message));
            }
        };
        let (reason, message) = match &self.config.trust_domain {
            Some(own) if consent.includes(own) => return None,
            None if consent == ExportConsent::All => return None,
            Some(own) => (
                Reason::ExportedToOthers,
                format!(
                    "{cluster} does not export it to {own}, only to {consent} (annotation {})",
                    l::EXPORT_TO
                ),
            ),
            None => (
                Reason::UnclearExport,
                format!(
                    "{cluster} exports it only to {consent} (annotation {}), and the trust domain of this cluster is \
                     unknown (flag --trust-domain of the controller)",
                    l::EXPORT_TO
                ),
            ),
        };
        Some(Problem::new(reason, message))
    }
}

#[cfg(test)]
mod tests;
