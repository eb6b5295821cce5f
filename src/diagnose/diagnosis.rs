//! What was found on the way of a request.

use super::{
    causes::{Cause, Layer},
    layer::{Finding, Impact, LayerReport},
};
use crate::api::metadata::ResourceId;

/// What was found on the way of a request.
#[derive(Clone, Debug)]
pub(crate) struct Diagnosis {
    /// The Service that is called.
    pub(crate) service: ResourceId,
    /// The port, if it was named.
    pub(crate) port: Option<u16>,
    /// What the Service is, in words.
    pub(crate) what: String,
    /// The layers up to the first broken one.
    pub(crate) layers: Vec<LayerReport>,
}

impl Diagnosis {
    /// The first cause: that of the first broken layer, or else what makes requests go elsewhere than wanted.
    pub(crate) fn cause(&self) -> Option<(Layer, &Finding)> {
        let all = || {
            self.layers.iter().flat_map(|report| {
                let findings = report.findings.iter();
                findings.map(|finding| (report.layer, finding))
            })
        };
        let is_broken = |(_, finding): &(Layer, &Finding)| finding.impact == Impact::Broken;
        all().find(is_broken).or_else(|| all().next())
    }

    /// The state of a layer, and its causes, without what is counted; `None` if it was not judged.
    pub(crate) fn outline(&self, layer: Layer) -> Option<(&'static str, Vec<(Cause, Impact)>)> {
        let mut layers = self.layers.iter();
        let report = layers.find(|report| report.layer == layer)?;
        let findings = report.findings.iter();
        let causes = findings.map(|finding| (finding.cause, finding.impact));
        Some((report.state(), causes.collect()))
    }

    /// Whether requests fail, as far as is known.
    pub(crate) fn is_broken(&self) -> bool {
        let mut layers = self.layers.iter();
        layers.any(LayerReport::is_broken)
    }
}
