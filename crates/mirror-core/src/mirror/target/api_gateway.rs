//! The gateway through which a Link reaches the API server of its target cluster, as an annotation of the Link has it.

use std::num::NonZeroU16;

use kube_core::ResourceExt as _;
use serde::{Deserialize, Serialize};

use crate::api::{labels as l, link::Link, metadata::ResourceId, names::is_dns_label, text::short};

/// The value of the annotation, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiGatewaySettings {
    /// IP addresses and host names.
    pub addresses: Vec<String>,
    /// TCP port.
    pub port: NonZeroU16,
    /// TLS identity.
    pub identity: String,
    /// The Service of the target cluster that it forwards to, as `NAMESPACE/NAME`.
    pub service: String,
    /// Whether Linkerd's control plane goes this way too, for remote discovery.
    #[serde(default)]
    pub discovery: bool,
}

impl ApiGatewaySettings {
    /// Those of a Link; `None` if it reaches the API server at the address in its credentials.
    pub fn of(link: &Link) -> Result<Option<Self>, String> {
        let text = link.annotations().get(l::API_GATEWAY);
        let parsed = text.map(|text| serde_json::from_str(text)).transpose();
        parsed.map_err(|error| error.to_string())
    }

    /// The Service that it forwards to.
    pub(crate) fn service(&self) -> Result<ResourceId, String> {
        let parts = self.service.split_once('/');
        let parts = parts.filter(|(namespace, name)| is_dns_label(namespace) && is_dns_label(name));
        match parts {
            Some((namespace, name)) => Ok(ResourceId::new(namespace, name)),
            None => Err(format!(
                "invalid service {:?} (use NAMESPACE/NAME)",
                short(&self.service)
            )),
        }
    }

    /// The value of the annotation.
    pub fn to_annotation(&self) -> String {
        serde_json::json!(self).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::{ApiGateway, Target, fixtures::link};

    /// The error for an annotation, and what is parsed.
    fn parsed(annotation: &str) -> Result<Option<ApiGateway>, String> {
        let mut made = link("east");
        made.annotations_mut()
            .insert(l::API_GATEWAY.to_owned(), annotation.to_owned());
        let target = Target::parse(&made, false).map_err(|error| error.to_string())?;
        Ok(target.api_gateway)
    }

    #[test]
    fn annotation_has_all_that_leads_to_the_api_server() {
        let settings = ApiGatewaySettings {
            addresses: vec!["192.0.2.7".to_owned(), "api.example".to_owned()],
            port: NonZeroU16::new(4143).unwrap(),
            identity: "api.identity".to_owned(),
            service: "mc/kubernetes-api".to_owned(),
            discovery: false,
        };
        let found = parsed(&settings.to_annotation()).unwrap().unwrap();
        assert_eq!(found.gateway.hosts.len(), 2);
        assert_eq!(found.gateway.port, 4143);
        assert_eq!(found.service.to_string(), settings.service);
        let mut made = link("east");
        assert_eq!(ApiGatewaySettings::of(&made), Ok(None));
        made.annotations_mut()
            .insert(l::API_GATEWAY.to_owned(), settings.to_annotation());
        assert_eq!(ApiGatewaySettings::of(&made), Ok(Some(settings)));
    }

    #[test]
    fn annotation_that_leads_nowhere_is_refused() {
        let good = r#"{"addresses":["192.0.2.7"],"port":4143,"identity":"i","service":"mc/api"}"#;
        assert!(parsed(good).is_ok());
        for (from, to, why) in [
            ("192.0.2.7", " ", "it has no address"),
            ("4143", "0", "invalid value"),
            ("mc/api", "api", "invalid service"),
            ("mc/api", "mc/a.b", "invalid service"),
            ("\"identity\":\"i\",", "", "missing field `identity`"),
            ("port", "ports", "unknown field `ports`"),
            (good, "gateway", "expected value"),
        ] {
            let error = parsed(&good.replace(from, to)).unwrap_err();
            assert!(
                error.contains(l::API_GATEWAY) && error.contains(why),
                "{error}"
            );
        }
    }
}
