//! Checks of the gateways of this cluster: what they forward to.

use hints::prose::listed;
use mirror_core::{
    api::{
        gateway_suffixes::{ADDITIONAL_ENV, GatewaySuffixes},
        labels::{API_GATEWAY_NAME, EXPORT_TO, GATEWAY_SERVER},
    },
    mirror::API_SERVER_SERVICE,
};

use super::{
    proxies::is_gone,
    rule::{INSTALL_AGAIN, Verdict},
};
use crate::{
    clusters::{
        gateway_permits::{Export, GatewayPermits},
        snapshot::{FullSnapshot, MeshedPod},
    },
    finding::Finding,
};

/// Whether this is a Pod of the gateway that leads to the API server.
fn is_of_api_server(pod: &MeshedPod) -> bool {
    let rest = pod.id.name.strip_prefix(API_GATEWAY_NAME);
    rest.is_some_and(|rest| rest.starts_with('-'))
}

/// Whether the proxies of the gateways forward to what the values of `install` say.
pub fn forwards(snapshot: &FullSnapshot) -> Verdict {
    let pods = snapshot.pods.iter().flatten().filter(|pod| !is_gone(pod));
    let gateways: Vec<(&MeshedPod, &GatewaySuffixes)> = pods
        .filter_map(|pod| Some((pod, pod.proxy.as_ref()?.forwards_to.as_ref()?)))
        .collect();
    let (of_api_server, gateways): (Vec<_>, Vec<_>) = gateways
        .into_iter()
        .partition(|(pod, _)| is_of_api_server(pod));
    let is_open = |suffixes: &GatewaySuffixes| {
        let only = format!("{API_SERVER_SERVICE}.");
        !suffixes.0.iter().all(|suffix| suffix.starts_with(&only))
    };
    let open = of_api_server
        .iter()
        .filter(|(_, suffixes)| is_open(suffixes));
    let open: Vec<Finding> = open
        .map(|(pod, suffixes)| {
            let what = format!(
                "pod {} leads controllers of other clusters to {suffixes}, and not only to the API server. Versions of \
                 Linkerd before edge-26.4.3 ignore the annotation {ADDITIONAL_ENV}",
                pod.id
            );
            what.into()
        })
        .collect();
    if !open.is_empty() {
        return Verdict::Warn(open);
    }
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
        let missing = exports.iter().map(|export| &export.id);
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
    let mut problems: Vec<Finding> = problems.collect();
    if controller.permits_exports {
        match &snapshot.permits {
            Ok(permits) => problems.extend(permitted(permits, exports)),
            Err(why) => {
                problems.push(format!("cannot read the policy of the gateway: {why}").into());
            }
        }
    }
    if problems.is_empty() {
        let some = match first.to_string() {
            none if none.is_empty() => {
                "it forwards to nothing, because nothing is exported".to_owned()
            }
            some => format!("it forwards only to {some}"),
        };
        let level = controller.permits_exports.then(|| {
            "it permits only exported Services, and only the clusters that these are exported to".to_owned()
        });
        return Verdict::PassWith([some].into_iter().chain(level).collect());
    }
    Verdict::Warn(problems)
}

/// What the policy of the gateway does not permit as exports say, and what it cannot permit.
fn permitted(permits: &GatewayPermits, exports: &[Export]) -> Vec<Finding> {
    let named = |which: &dyn Fn(&&Export) -> bool| {
        let ids = exports
            .iter()
            .filter(which)
            .map(|export| export.id.to_string());
        let ids: Vec<String> = ids.collect();
        (!ids.is_empty()).then(|| listed(&ids, 3))
    };
    let whole = permits.is_whole.then(|| {
        format!(
            "the AuthorizationPolicy {GATEWAY_SERVER} permits all that the gateway forwards to, exported or not; the controller deletes \
             it once all exported Services have a route"
        )
    });
    let missing = named(&|export| export.consent.is_some() && !permits.have(&export.id));
    let missing =
        missing.map(|ids| format!("the gateway has no route for {ids}, so it answers with 404"));
    let unclear = named(&|export| export.consent.is_none());
    let unclear = unclear.map(|ids| {
        format!("{ids}: the annotation {EXPORT_TO} is invalid, so no cluster may use it")
    });
    let opaque = named(&|export| export.is_opaque);
    let opaque = opaque.map(|ids| {
        format!("{ids}: opaque ports are not forwarded with gateway.forward=permitted, because no route can name them")
    });
    let all = [whole, missing, unclear, opaque];
    all.into_iter().flatten().map(Finding::from).collect()
}
