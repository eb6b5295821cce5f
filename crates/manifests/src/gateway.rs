//! Reads from a gateway's Service what a Link needs.

use k8s_openapi::api::core::v1::Service;

use hints::{
    hint::{HintExt as _, fail},
    suggest::ClusterFlags,
};
use mirror_core::api::{
    duration::{format_go_duration, parse_go_duration},
    labels,
};

/// A gateway from the view of another cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteGateway {
    /// IP addresses and host names, at least one.
    pub addresses: Vec<String>,
    /// Port of mirrored traffic.
    pub port: u16,
    /// TLS identity.
    pub identity: String,
    /// Path of the probe.
    pub probe_path: String,
    /// Port of the probe.
    pub probe_port: u16,
    /// Interval of probes, a Go duration.
    pub probe_period: String,
}

/// Values of flags that override those of the gateway's Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Addresses; empty: those of the Service's load balancer.
    pub addresses: Vec<String>,
    /// Port of mirrored traffic.
    pub port: Option<u16>,
}

impl RemoteGateway {
    /// Reads a gateway's Service. Fails if it lacks something that a Link needs.
    ///
    /// `flags` are those that commands in the target cluster need.
    pub fn read(
        service: &Service,
        overrides: &Overrides,
        flags: &ClusterFlags,
    ) -> anyhow::Result<Self> {
        let name = format!(
            "{}/{}",
            service.metadata.namespace.as_deref().unwrap_or_default(),
            service.metadata.name.as_deref().unwrap_or_default()
        );
        let addresses = if overrides.addresses.is_empty() {
            load_balancer_addresses(service)
        } else {
            overrides.addresses.clone()
        };
        if addresses.is_empty() {
            return Err(fail(
                format!("the gateway {name} has no address"),
                "wait until its load balancer has one, pass one with --gateway-addresses, or link without a gateway with --gateway=false",
            ));
        }
        let annotation = |key: &str| {
            let all = service.metadata.annotations.as_ref();
            let value = all.and_then(|all| all.get(key));
            let value = value.filter(|value| !value.is_empty());
            value.ok_or_else(|| {
                fail(
                    format!("the gateway {name} has no annotation {key}"),
                    another(flags),
                )
            })
        };
        let period = annotation(labels::PROBE_PERIOD)?;
        Ok(Self {
            addresses,
            port: match overrides.port {
                Some(port) => port,
                None => port(service, labels::GATEWAY_PORT_NAME, &name, flags)?,
            },
            identity: annotation(labels::GATEWAY_IDENTITY)?.clone(),
            probe_path: annotation(labels::PROBE_PATH)?.clone(),
            probe_port: port(service, labels::PROBE_PORT_NAME, &name, flags)?,
            probe_period: probe_period(period).hint(
                || {
                    format!(
                        "the gateway {name} has an invalid annotation {}",
                        labels::PROBE_PERIOD
                    )
                },
                || "use seconds, or a duration such as 3s".into(),
            )?,
        })
    }
}

/// The addresses of a Service's load balancer.
pub fn load_balancer_addresses(service: &Service) -> Vec<String> {
    service
        .status
        .iter()
        .filter_map(|status| status.load_balancer.as_ref()?.ingress.as_ref())
        .flatten()
        .filter_map(|ingress| {
            [&ingress.ip, &ingress.hostname]
                .into_iter()
                .flatten()
                .find(|address| !address.is_empty())
                .cloned()
        })
        .collect()
}

/// The port of this name for other clusters: on a `NodePort` Service the node port.
pub fn port_for_others(service: &Service, port_name: &str) -> Option<u16> {
    let spec = service.spec.as_ref()?;
    let mut ports = spec.ports.iter().flatten();
    let port = ports.find(|port| port.name.as_deref() == Some(port_name))?;
    let port = match spec.type_.as_deref() {
        Some("NodePort") => port.node_port?,
        _ => port.port,
    };
    u16::try_from(port).ok()
}

fn port(
    service: &Service,
    port_name: &str,
    name: &str,
    flags: &ClusterFlags,
) -> anyhow::Result<u16> {
    port_for_others(service, port_name).ok_or_else(|| {
        fail(
            format!("the gateway {name} has no port named {port_name}"),
            another(flags),
        )
    })
}

/// What to do if the Service is not that of a gateway.
fn another(flags: &ClusterFlags) -> String {
    format!(
        "choose the gateway's Service with --gateway-name and --gateway-namespace, or install a gateway with {}",
        flags.install()
    )
}

/// Whole seconds become a Go duration; a Go duration is kept as it is.
fn probe_period(text: &str) -> anyhow::Result<String> {
    if let Ok(seconds) = text.parse::<u32>() {
        let period = std::time::Duration::from_secs(seconds.into());
        return Ok(format_go_duration(period));
    }
    parse_go_duration(text)?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use hints::hint::hint_of;
    use serde_json::{Value, json};

    use super::*;

    fn service() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "gw", "namespace": "mc", "annotations": {
                "mirror.linkerd.io/gateway-identity": "gw.mc.serviceaccount.identity.linkerd.cluster.local",
                "mirror.linkerd.io/probe-path": "/ready",
                "mirror.linkerd.io/probe-period": "3",
            } },
            "spec": { "type": "LoadBalancer", "ports": [
                { "name": "mc-gateway", "port": 4143, "nodePort": 31143 },
                { "name": "mc-probe", "port": 4191, "nodePort": 31191 },
            ] },
            "status": { "loadBalancer": { "ingress": [
                { "ip": "192.0.2.1" }, { "hostname": "lb.example.com" }, { "ip": "", "hostname": "b.example.com" }, {},
            ] } },
        })
    }

    fn read(
        change: impl FnOnce(&mut Value),
        overrides: &Overrides,
    ) -> anyhow::Result<RemoteGateway> {
        let mut service = service();
        change(&mut service);
        let service = serde_json::from_value(service).unwrap();
        RemoteGateway::read(&service, overrides, &ClusterFlags::default())
    }

    #[test]
    fn gateway_is_read_from_its_service() {
        let expected = RemoteGateway {
            addresses: ["192.0.2.1", "lb.example.com", "b.example.com"]
                .map(Into::into)
                .into(),
            port: 4143,
            identity: "gw.mc.serviceaccount.identity.linkerd.cluster.local".into(),
            probe_path: "/ready".into(),
            probe_port: 4191,
            probe_period: "3s".into(),
        };
        let none = Overrides::default();
        assert_eq!(read(|_| (), &none).unwrap(), expected);

        let node_port = read(|s| s["spec"]["type"] = json!("NodePort"), &none).unwrap();
        assert_eq!((node_port.port, node_port.probe_port), (31143, 31191));

        let overridden = Overrides {
            addresses: vec!["198.51.100.1".into()],
            port: Some(443),
        };
        let gateway = read(|s| s["status"] = json!({}), &overridden).unwrap();
        assert_eq!(
            (gateway.addresses, gateway.port),
            (overridden.addresses, 443)
        );
    }

    #[test]
    fn a_probe_period_is_seconds_or_a_duration() {
        for (text, period) in [
            ("3", "3s"),
            ("90", "1m30s"),
            ("1m", "1m"),
            ("500ms", "500ms"),
        ] {
            let gateway = read(
                |s| s["metadata"]["annotations"][labels::PROBE_PERIOD] = json!(text),
                &Overrides::default(),
            );
            assert_eq!(gateway.unwrap().probe_period, period);
        }
    }

    #[test]
    fn missing_gateway_settings_are_named_in_the_error() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 7] = [
            (
                |s| s["status"] = json!({}),
                "the gateway mc/gw has no address",
            ),
            (
                |s| s["metadata"]["annotations"] = json!({}),
                "the gateway mc/gw has no annotation mirror.linkerd.io/probe-period",
            ),
            (
                |s| s["metadata"]["annotations"][labels::PROBE_PATH] = json!(""),
                "the gateway mc/gw has no annotation mirror.linkerd.io/probe-path",
            ),
            (
                |s| s["metadata"]["annotations"][labels::GATEWAY_IDENTITY] = Value::Null,
                "the gateway mc/gw has no annotation mirror.linkerd.io/gateway-identity",
            ),
            (
                |s| s["metadata"]["annotations"][labels::PROBE_PERIOD] = json!("often"),
                "the gateway mc/gw has an invalid annotation mirror.linkerd.io/probe-period",
            ),
            (
                |s| s["spec"]["ports"][0]["name"] = json!("other"),
                "the gateway mc/gw has no port named mc-gateway",
            ),
            (
                |s| s["spec"]["ports"][1]["name"] = json!("other"),
                "the gateway mc/gw has no port named mc-probe",
            ),
        ];
        for (change, what) in cases {
            let error = read(
                |s| {
                    change(s);
                    // A null annotation is none.
                    s["metadata"]["annotations"]
                        .as_object_mut()
                        .unwrap()
                        .retain(|_, v| !v.is_null());
                },
                &Overrides::default(),
            )
            .unwrap_err();
            assert_eq!(error.to_string(), what);
            assert!(hint_of(&error).is_some(), "{what}");
        }
    }
}
