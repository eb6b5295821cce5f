//! What the proxy of the calling Pod counts.

use super::{causes::Layer, context::PathContext, layer::LayerReport};

pub(super) fn judge(way: &PathContext<'_>) -> LayerReport {
    let mut report = LayerReport::new(Layer::Answers);
    match &way.facts.client {
        None => report.cannot_see("the calling Pod", "none was named; pass --from POD"),
        Some(Err(why)) => report.cannot_see("the calling Pod", why),
        Some(Ok(_)) => {}
    }
    report
}
