//! What was found on the way of a request.

use mirror_core::api::metadata::ResourceId;

use super::layer::LayerReport;
use crate::finding::{
    Finding, Level,
    causes::{Cause, Layer},
};
use crate::timeline::Timeline;

/// The state of a layer, and its causes.
pub type LayerOutline = (&'static str, Vec<(Option<Cause>, Level)>);

/// What was found on the way of a request.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The Service that is called.
    pub service: ResourceId,
    /// The port, if it was named.
    pub port: Option<u16>,
    /// What the Service is, in words.
    pub what: String,
    /// The layers up to the first broken one.
    pub layers: Vec<LayerReport>,
    /// What happened, if that was read.
    pub timeline: Timeline,
}

impl Diagnosis {
    /// The first cause: that of the first broken layer, or else what makes requests go elsewhere than wanted.
    pub fn cause(&self) -> Option<(Layer, &Finding)> {
        let all = || {
            self.layers.iter().flat_map(|report| {
                let findings = report.findings.iter();
                findings.map(|finding| (report.layer, finding))
            })
        };
        let is_broken = |(_, finding): &(Layer, &Finding)| finding.level == Level::Error;
        all().find(is_broken).or_else(|| all().next())
    }

    /// The state of a layer, and its causes, without what is counted; `None` if it was not judged.
    pub fn outline(&self, layer: Layer) -> Option<LayerOutline> {
        let mut layers = self.layers.iter();
        let report = layers.find(|report| report.layer == layer)?;
        let findings = report.findings.iter();
        let causes = findings.map(|finding| (finding.cause, finding.level));
        Some((report.state(), causes.collect()))
    }

    /// Whether requests fail, as far as is known.
    pub fn is_broken(&self) -> bool {
        let mut layers = self.layers.iter();
        layers.any(LayerReport::is_broken)
    }
}
