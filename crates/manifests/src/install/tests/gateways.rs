//! Tests of the gateway for the API server.

use mirror_core::{
    api::{
        gateway_suffixes::{ADDITIONAL_ENV, VARIABLE},
        labels as l,
    },
    mirror::{API_SERVER_PORT, API_SERVER_SERVICE},
};
use serde_json::json;

use super::{find, rendered};
use crate::render::Manifest;

#[test]
fn api_server_is_served_at_its_cluster_ip_if_that_is_set() {
    for (address, address_type) in [("10.96.0.1", "IPv4"), ("fd00:10:96::1", "IPv6")] {
        let manifest =
            rendered(|values| address.clone_into(&mut values.api_gateway.api_server_address));
        let service = find(&manifest, "Service", API_SERVER_SERVICE).unwrap();
        let port = &service["spec"]["ports"][0]["port"];
        assert_eq!(*port, json!(API_SERVER_PORT));
        assert_eq!(service["spec"].get("selector"), None);
        let slice = find(&manifest, "EndpointSlice", API_SERVER_SERVICE).unwrap();
        assert_eq!(slice["addressType"], address_type);
        assert_eq!(slice["endpoints"][0]["addresses"], json!([address]));
        assert_eq!(
            slice["metadata"]["labels"][l::SLICE_SERVICE],
            API_SERVER_SERVICE
        );
    }
    let without = rendered(|_| ());
    assert_eq!(find(&without, "Service", API_SERVER_SERVICE), None);
    assert_eq!(find(&without, "Deployment", l::API_GATEWAY_NAME), None);
}

#[test]
fn gateway_for_the_api_server_forwards_to_one_service_for_controllers_only() {
    let manifest = rendered(|values| {
        "10.96.0.1".clone_into(&mut values.api_gateway.api_server_address);
        values.gateway.enabled = false;
        values.gateway.node_port = Some(30143);
        values.gateway.service_annotations = [("of".into(), "traffic".into())].into();
        values.gateway.deployment_annotations = [
            (ADDITIONAL_ENV.to_owned(), "[]".to_owned()),
            ("other".to_owned(), "kept".to_owned()),
        ]
        .into();
        "c.d".clone_into(&mut values.cluster_domain);
        "t.d".clone_into(&mut values.identity_trust_domain);
    });
    assert_eq!(find(&manifest, "Deployment", l::GATEWAY_NAME), None);
    let deployment = find(&manifest, "Deployment", l::API_GATEWAY_NAME).unwrap();
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    let only = format!("{API_SERVER_SERVICE}.linkerd-multicluster.svc.c.d.");
    assert_eq!(
        annotations[ADDITIONAL_ENV],
        json!([{ "name": VARIABLE, "value": only }]).to_string()
    );
    assert_eq!(annotations["other"], "kept");
    let service = find(&manifest, "Service", l::API_GATEWAY_NAME).unwrap();
    assert_eq!(service["spec"]["ports"][0].get("nodePort"), None);
    assert_eq!(service["metadata"]["annotations"].get("of"), None);
    assert_eq!(
        service["metadata"]["annotations"][l::GATEWAY_IDENTITY],
        "linkerd-api-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.t.d"
    );
    let policy = find(&manifest, "AuthorizationPolicy", l::API_GATEWAY_NAME).unwrap();
    let required = policy["spec"]["requiredAuthenticationRefs"].as_array();
    assert_eq!(required.map(Vec::len), Some(1));
    let clients = |manifest: &Manifest| {
        let clients = find(manifest, "MeshTLSAuthentication", l::API_GATEWAY_NAME).unwrap();
        clients["spec"]["identities"].clone()
    };
    let of = "serviceaccount.identity.linkerd.t.d";
    let both = [
        format!("linkerd-multicluster-controller.linkerd-multicluster.{of}"),
        format!("linkerd-destination.linkerd.{of}"),
    ];
    assert_eq!(clients(&manifest), json!(both));
    let named = rendered(|values| {
        "10.96.0.1".clone_into(&mut values.api_gateway.api_server_address);
        values.api_gateway.clients = vec!["*.west.example".to_owned()];
    });
    assert_eq!(clients(&named), json!(["*.west.example"]));
}
