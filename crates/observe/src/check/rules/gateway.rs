//! Checks of the gateway of this cluster: what it forwards to.

use hints::prose::listed;
use mirror_core::api::gateway_suffixes::{ADDITIONAL_ENV, GatewaySuffixes};

use super::{
    proxies::is_gone,
    rule::{INSTALL_AGAIN, Verdict},
};
use crate::{
    clusters::snapshot::{FullSnapshot, MeshedPod},
    finding::Finding,
};

/// Whether the proxies of the gateway forward to what the values of `install` say.
pub fn forwards(snapshot: &FullSnapshot) -> Verdict {
    let pods = snapshot.pods.iter().flatten().filter(|pod| !is_gone(pod));
    let gateways: Vec<(&MeshedPod, &GatewaySuffixes)> = pods
        .filter_map(|pod| Some((pod, pod.proxy.as_ref()?.forwards_to.as_ref()?)))
        .collect();
    let (Some((_, first)), Some(controller)) = (gateways.first(), snapshot.controller()) else {
        return Verdict::Skip;
    };
    let Some(gateway) = &controller.export_gateway else {
        let limited = gateways
            .iter()
            .filter(|(_, suffixes)| !suffixes.are_of_all());
        let limited: Vec<Finding> = limited
            .map(|(pod, suffixes)| {
                format!(
                    "pod {} forwards only to {suffixes}; {INSTALL_AGAIN}",
                    pod.id
                )
                .into()
            })
            .collect();
        return if limited.is_empty() {
            let all = "it forwards to all Services of this cluster, exported or not";
            Verdict::PassWith(vec![all.to_owned()])
        } else {
            Verdict::Warn(limited)
        };
    };
    let exports = match &snapshot.exports {
        Ok(exports) => exports,
        Err(why) => return Verdict::warn(format!("cannot list exported Services: {why}")),
    };
    let problems = gateways.iter().filter_map(|(pod, suffixes)| {
        let id = &pod.id;
        if suffixes.are_of_all() {
            return Some(format!(
                "pod {id} forwards to all Services of this cluster, exported or not, until it is replaced. Versions of \
                 Linkerd before edge-26.4.3 ignore the annotation {ADDITIONAL_ENV}"
            ));
        }
        let missing = exports.iter();
        let missing = missing.filter(|of| !suffixes.have(&of.namespace, &of.name));
        let missing: Vec<String> = missing.map(ToString::to_string).collect();
        (!missing.is_empty()).then(|| {
            let missing = listed(&missing, 3);
            format!("pod {id} does not forward to {missing}, which other clusters may use, until it is replaced")
        })
    });
    let follow = snapshot.cluster.flags.kubectl(
        "-n {} rollout status deployment/{}",
        &[&controller.id.namespace, gateway],
    );
    let problems = problems.map(|problem| Finding::from(problem).fixed_by(&follow));
    let problems: Vec<Finding> = problems.collect();
    if problems.is_empty() {
        let some = match first.to_string() {
            none if none.is_empty() => {
                "it forwards to nothing, because nothing is exported".to_owned()
            }
            some => format!("it forwards only to {some}"),
        };
        return Verdict::PassWith(vec![some]);
    }
    Verdict::Warn(problems)
}
