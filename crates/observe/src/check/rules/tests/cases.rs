//! The result of each rule for a cluster with one problem.

use client::Identity;

use super::{
    identities::{chained, constrained_anchor},
    *,
};
use crate::clusters::{
    fixtures::federated,
    fixtures::silent,
    snapshot::{ReadError, ReadErrorKind},
};

pub type Change = fn(&mut FullSnapshot);

/// The name of a check, a change to the cluster, and the result of the check after it: its level and a part of its
/// text.
#[rustfmt::skip]
pub const CASES: &[(&str, Change, Option<Level>, &str)] = &[
    ("multicluster extension Namespace exists", |f| f.extension_namespaces = no(), Some(Level::Error), "cannot list Namespaces: refused"),
    ("multicluster extension Namespace exists", |f| f.extension_namespaces = Ok(vec![]), Some(Level::Error), "no Namespace has the label linkerd.io/extension=multicluster"),
    ("Link CRD exists", |f| f.serves_links = no(), Some(Level::Error), "refused"),
    ("Link CRD exists", |f| f.serves_links = Ok(false), Some(Level::Error), "Link not found"),
    ("Link CRD exists", |f| f.may_list_links = no(), Some(Level::Error), "refused"),
    ("Link CRD exists", |f| f.may_list_links = Ok(false), Some(Level::Error), "not permitted to list Links"),
    ("Link CRD is up to date", |f| f.crd = no(), Some(Level::Warning), "cannot read the CRD: refused"),
    ("Link CRD is up to date", |f| f.crd = Ok(Crd::default()), Some(Level::Warning), "the CRD lacks status.conditions, status.gateway, status.mirrored, status.federated, status.unhealthy, status.targetClusterName, status.observedGeneration, columns for kubectl, so the state of Links cannot be shown: apply the output of `install` again, with your values"),
    ("Link resources are valid", |f| east(f).unreadable = Some("spec.selector.matchLabels: no text".into()), Some(Level::Error), "failed to read the Link: spec.selector.matchLabels"),
    ("Link resources are valid", |f| f.cluster.links = no(), Some(Level::Error), "cannot list Links: refused"),
    ("Link resources are valid", |f| east(f).link.spec.target_cluster_name.clear(), Some(Level::Error), "Link linkerd-multicluster/east: invalid spec.targetClusterName \"\": must be a DNS label"),
    ("Link resources are valid", |f| east(f).link.spec.cluster_credentials_secret.clear(), Some(Level::Error), "spec.clusterCredentialsSecret is empty"),
    ("Link resources are valid", |f| east(f).link.spec.gateway_port = "0".into(), Some(Level::Error), "invalid spec.gatewayPort \"0\""),
    ("Link resources are valid", |f| east(f).link.spec.gateway_address = "gw.example.com:4143".into(), Some(Level::Error), "invalid spec.gatewayAddress \"gw.example.com:4143\": spec.gatewayAddress must have IP addresses"),
    ("Link resources are valid", |f| f.cluster.links.as_mut().unwrap().push(link("east")), Some(Level::Error), "have the same target cluster east"),
    ("cluster names keep mirrors apart", |f| f.cluster.links.as_mut().unwrap().push(link("local")), Some(Level::Warning), "cluster local: preferences and metrics take this name for the cluster that has the mirrors"),
    ("cluster names keep mirrors apart", |f| f.cluster.links.as_mut().unwrap().push(link("us-east")), Some(Level::Warning), "clusters east and us-east: Service web-us of east and Service web of us-east have mirrors of the same name, web-us-east"),
    ("this machine's clock agrees with that of the API server", |f| f.ahead = jiff::SignedDuration::from_secs(60), None, ""),
    ("this machine's clock agrees with that of the API server", |f| f.ahead = jiff::SignedDuration::from_secs(-61), Some(Level::Warning), "the clock of this machine is 61 s ahead of that of the API server, which counts"),
    ("Link and CLI versions match", |f| f.version = "1.2.4".into(), Some(Level::Warning), "Link linkerd-multicluster/east was created by version 1.2.3, but this CLI is 1.2.4"),
    ("Link and CLI versions match", |f| east(f).link.metadata.annotations = None, Some(Level::Warning), "unable to determine version"),
    ("Link and CLI versions match", |f| east(f).link.metadata.annotations.as_mut().unwrap().insert(labels::CREATED_BY.into(), "linkerd/cli edge-26.8.1".into()).map_or((), drop), None, ""),
    ("remote cluster access credentials are valid", |f| east(f).credentials = Some(no()), Some(Level::Error), "east: refused"),
    ("remote cluster access credentials are valid", |f| east(f).credentials = Some(Err(ReadError::new(ReadErrorKind::NotFound, "cannot read Secret mc/c: not found"))), Some(Level::Error), "east: cannot read Secret mc/c: not found: run `linkerd-mc link`"),
    ("remote cluster access credentials are valid", |f| east(f).target = Some(no()), Some(Level::Error), "east: refused"),
    ("remote cluster access credentials are valid", |f| east(f).target = Some(Err(ReadError::new(ReadErrorKind::Unauthorized, "cannot reach the cluster: no"))), Some(Level::Error), "east: the API server refuses the token, which was revoked or has expired: run `linkerd-mc rotate east`"),
    ("remote cluster access credentials are valid", |f| through_gateway(f, "True"), None, ""),
    ("remote cluster access credentials are valid", |f| through_gateway(f, "False"), Some(Level::Error), "east: no answer"),
    ("remote cluster access credentials are valid", |f| target(f).denied = no(), Some(Level::Error), "east: cannot check permissions: refused"),
    ("remote cluster access credentials are valid", |f| target(f).denied = Ok(vec!["list services".into(), "get services".into()]), Some(Level::Error), "east: not permitted: list services, get services"),
    ("remote cluster access credentials are not about to expire", |f| expire(f, "2026-11-28T12:00:01Z"), None, ""),
    ("remote cluster access credentials are not about to expire", |f| expire(f, "2026-11-28T12:00:00Z"), Some(Level::Warning), "east: the token expires on 2026-11-28 12:00 UTC; renew it. An expired token cuts"),
    ("remote cluster access credentials are not about to expire", |f| expire(f, "2026-11-21T15:30:00Z"), Some(Level::Warning), "the token expires on 2026-11-21 15:30 UTC; renew it. "),
    ("remote cluster access credentials are not about to expire", |f| expire(f, NOW), Some(Level::Warning), "the token expired on 2026-11-21 12:00 UTC; renew it. "),
    ("remote cluster access credentials are not about to expire", |f| east(f).credentials = Some(no()), Some(Level::Warning), "east: not checked; see the check of its credentials"),
    ("connections to remote clusters are encrypted and verified", |f| insecure(f, InsecureTls::Plain), Some(Level::Error), "east: requests to the target's API server are not encrypted (http://), so they have no token: an attacker on the network can change what is mirrored; link again, and pass an address with https:// to --api-server-address"),
    ("connections to remote clusters are encrypted and verified", |f| insecure(f, InsecureTls::Unverified), Some(Level::Error), "east: the certificate of the target's API server is not verified (insecure-skip-tls-verify): "),
    ("connections to remote clusters are encrypted and verified", |f| east(f).credentials = Some(no()), Some(Level::Warning), "east: not checked; see the check of its credentials"),
    ("API servers behind gateways have CAs of their own", |f| { behind(f, &["ca", "company"]); also(f, "north", &["company"]); }, Some(Level::Warning), "east: its API server has the same CA as that of north: "),
    ("API servers behind gateways have CAs of their own", |f| { behind(f, &["company"]); also(f, "north", &["company"]); f.cluster.identity = trusting(&["company"]); }, Some(Level::Warning), "the same CA as that of north, this cluster: "),
    ("API servers behind gateways have CAs of their own", |f| { behind(f, &["east"]); also(f, "north", &["north"]); f.cluster.identity = trusting(&["west"]); }, None, ""),
    ("API servers behind gateways have CAs of their own", |f| { behind(f, &[]); also(f, "north", &[]); }, None, ""),
    ("API servers behind gateways have CAs of their own", |f| { behind(f, &["east"]); also(f, "east", &["east"]); }, None, ""),
    ("API servers behind gateways have CAs of their own", |f| { trust(f, &["company"]); also(f, "north", &["company"]); }, None, ""),
    ("API servers behind gateways have CAs of their own", |f| { through_gateway(f, "True"); east(f).credentials = Some(no()); }, Some(Level::Warning), "east: not checked; see the check of its credentials"),
    ("remote cluster access credentials expire some day", |f| endless(f, "access"), Some(Level::Warning), "east: the token of an account in access never expires: run `linkerd-mc rotate east"),
    ("remote cluster access credentials expire some day", |f| endless(f, labels::MULTICLUSTER_NAMESPACE), Some(Level::Warning), "the controller there may read it"),
    ("remote cluster access credentials expire some day", |f| east(f).credentials = Some(no()), Some(Level::Warning), "east: not checked; see the check of its credentials"),
    ("remote cluster access credentials permit only what is needed", |f| permit(f, rule("", "secrets", &[], &["get", "list"])), Some(Level::Warning), "east: unneeded permissions: secrets (get list); in that cluster, apply the output of `install` again, with your values"),
    ("remote cluster access credentials permit only what is needed", |f| permit(f, rule("certificates.k8s.io", "clustertrustbundles", &[], &["get", "list", "watch"])), None, ""),
    ("remote cluster access credentials permit only what is needed", |f| permit(f, rule("", "services", &[], &["get", "delete"])), Some(Level::Warning), "unneeded permissions: services (delete)"),
    ("remote cluster access credentials permit only what is needed", |f| permit(f, rule("", "configmaps", &[], &["get"])), Some(Level::Warning), "unneeded permissions: configmaps (get)"),
    ("remote cluster access credentials permit only what is needed", |f| permit(f, rule("", "configmaps", &["linkerd-config", "other"], &["get"])), Some(Level::Warning), "unneeded permissions: configmaps (get)"),
    ("remote cluster access credentials permit only what is needed", |f| permit(f, rule("*", "*", &[], &["*"])), Some(Level::Warning), "unneeded permissions: everything (*)"),
    ("remote cluster access credentials permit only what is needed", |f| permit(f, rule("apps", "deployments", &[], &["get"])), Some(Level::Warning), "unneeded permissions: deployments.apps (get)"),
    ("remote cluster access credentials permit only what is needed", |f| target(f).rules = no(), Some(Level::Warning), "east: not checked; see the check of its credentials"),
    ("Linkerd has the credentials of each Link", |f| f.destination = no(), Some(Level::Warning), "cannot read Linkerd's credentials: refused"),
    ("Linkerd has the credentials of each Link", |f| destination(f).credentials.clear(), Some(Level::Error), "east: namespace linkerd has no Secret for this cluster"),
    ("Linkerd has the credentials of each Link", |f| linkerds(f).token = Some("other".into()), Some(Level::Error), "east: the tokens in Linkerd's Secret and in the controller's Secret differ: run `linkerd-mc rotate east`"),
    ("Linkerd has the credentials of each Link", |f| linkerds(f).uses = Some("an exec plugin"), Some(Level::Error), "uses an exec plugin, so whoever wrote it acts as linkerd-destination"),
    ("Linkerd has the credentials of each Link", |f| linkerds(f).lacks = vec!["the type x".into()], Some(Level::Error), "east: Linkerd ignores the Secret linkerd/"),
    ("Linkerd has the credentials of each Link", |f| f.mirrors = Ok(vec![service("web-federated", &[], &[(labels::REMOTE_DISCOVERY, "web@east,web@north,api@north")]), service("web-north", &[(labels::REMOTE_DISCOVERY, "north")], &[])]), Some(Level::Error), "north: namespace linkerd has no Secret for this cluster, but Service shop/web-federated (and 1 more) names it, so Linkerd cannot follow its endpoints; link the cluster again, or remove what names it; then restart linkerd-destination: run `kubectl -n linkerd rollout restart deployment/linkerd-destination`"),
    ("Linkerd has the credentials of each Link", |f| f.mirrors = Ok(vec![service("web-federated", &[], &[(labels::MEMBERS, "web@north")])]), None, ""),
    ("Linkerd's credentials lead to the API server of each Link", |f| linkerds(f).identity = Some(trusting(&["bad"])), Some(Level::Warning), "east: the kubeconfig in Linkerd's Secret linkerd/ has another certificate authority than the controller's: run `linkerd-mc link"),
    ("Linkerd's credentials lead to the API server of each Link", |f| linkerds(f).identity = Some(Identity::default()), None, ""),
    ("Linkerd uses its current credentials", |f| linkerds(f).changed = Some("2026-11-20T12:00:01Z".parse().unwrap()), Some(Level::Warning), "east: linkerd-destination started before its credentials were changed"),
    ("Linkerd uses its current credentials", |f| linkerds(f).changed = Some("2026-11-20T11:59:59Z".parse().unwrap()), None, ""),
    ("Linkerd uses its current credentials", |f| { linkerds(f).expiry = Some(NOW.parse().unwrap()); linkerds(f).token = Some("other".into()); }, Some(Level::Warning), "east: Linkerd's Secret: the token expired on 2026-11-21 12:00 UTC; renew it. "),
    ("domains of target clusters are right", |f| target(f).config = Ok(from(json!({"clusterDomain": "east.example"}))), Some(Level::Error), "set spec.targetClusterDomain to east.example"),
    ("domains of target clusters are right", |f| { target(f).config = Ok(from(json!({"clusterDomain": "cluster.local"}))); east(f).link.spec.target_cluster_domain.clear(); }, None, ""),
    ("clusters share trust anchors", |f| f.cluster.config = no(), Some(Level::Error), "cannot read linkerd-config: refused"),
    ("clusters share trust anchors", |f| f.cluster.config = Ok(config("")), Some(Level::Error), "trust anchors of this cluster: no certificate found"),
    ("clusters share trust anchors", |f| target(f).config = no(), Some(Level::Error), "east: cannot read linkerd-config: refused"),
    ("clusters share trust anchors", |f| target(f).config = Ok(config("x")), Some(Level::Error), "east: trust anchors: no certificate found"),
    ("clusters share trust anchors", |f| target(f).config = Ok(config(&[A, B].concat())), Some(Level::Error), "east: not trusted in this cluster: CN=root.linkerd.cluster.local (serial 00b2, until"),
    ("clusters share trust anchors", |f| f.cluster.config = Ok(config(&[A, B].concat())), Some(Level::Error), "east: not trusted in the target cluster: CN=root.linkerd.cluster.local (serial 00b2, until"),
    ("clusters share trust anchors", |f| east(f).target = Some(no()), Some(Level::Warning), "east: not checked; see the check of its credentials"),
    ("service mirror controller has required permissions", |f| f.controller_denied = no(), Some(Level::Warning), "cannot review the controller's permissions: refused"),
    ("service mirror controller has required permissions", |f| f.controller_denied = Ok(vec!["list services".into()]), Some(Level::Error), "not permitted: list services; apply the output of `install` again, with your values"),
    ("service mirror controller is restricted by admission policies", |f| f.confinement = no(), Some(Level::Warning), "cannot read the admission policies: refused"),
    ("service mirror controller is restricted by admission policies", |f| f.confinement = Ok(confinement(&["ValidatingAdmissionPolicy x"], &[])), Some(Level::Warning), "ValidatingAdmissionPolicy x not found: anyone with the controller's token can write any Service\napply the output of `install` again, with your values"),
    ("service mirror controller is restricted by admission policies", |f| f.confinement = Ok(confinement(&[], &["ValidatingAdmissionPolicy x"])), Some(Level::Warning), "ValidatingAdmissionPolicy x differs from that of this version"),
    ("service mirror controllers are running", |f| f.deployments = no(), Some(Level::Error), "cannot list Deployments: refused"),
    ("service mirror controllers are running", |f| f.deployments = Ok(vec![]), Some(Level::Error), "Deployment linkerd-multicluster-controller not found"),
    ("service mirror controllers are running", |f| ours(f).available = 0, Some(Level::Error), "linkerd-multicluster-controller has 0/1 replicas available"),
    ("service mirror controllers are running", |f| { let copy = ours(f).clone(); f.deployments.as_mut().unwrap().push(copy); }, Some(Level::Error), "found more than one"),
    ("extension is managing controllers", |f| second(f, "linkerd-service-mirror-east", "service-mirror", Some("east")), Some(Level::Warning), "linkerd-service-mirror-east is that of the deprecated command link of Linkerd; remove it: run `linkerd-mc unlink east --only-controller --apply`"),
    ("no other service mirror is running for a Link", |f| second(f, "controller-east", "controller", Some("east")), Some(Level::Error), "controller-east also mirrors from east"),
    ("no other service mirror is running for a Link", |f| second(f, "controller-north", "controller", Some("north")), None, ""),
    ("no other service mirror is running for a Link", |f| second(f, "linkerd-local-service-mirror", "local-service-mirror", None), Some(Level::Error), "also writes federated Services"),
    ("no other service mirror is running for a Link", |f| { second(f, "controller-east", "controller", Some("east")); ours(f).desired = 0; }, None, ""),
    ("controller and CLI versions match", |f| ours(f).images = vec!["registry.example:5000/controller:v1.2.2".into()], Some(Level::Warning), "the controller's image is v1.2.2, but this CLI is 1.2.3; apply the output of `install` again, with your values"),
    ("service mirror controller is reporting", |f| lead(f, Ok(Some(silent(NOW)))), Some(Level::Error), "no controller is active: controller-1 last renewed the Lease linkerd-multicluster/service-mirror-write at 2026-11-21 11:48:00 UTC, and nothing has been reported since: run `kubectl -n linkerd-multicluster get pods`"),
    ("service mirror controller is reporting", |f| lead(f, Ok(None)), Some(Level::Error), "no controller has been active: the Lease linkerd-multicluster/service-mirror-write does not exist"),
    ("service mirror controller is reporting", |f| lead(f, no()), Some(Level::Warning), "cannot read the Lease linkerd-multicluster/service-mirror-write: refused"),
    ("Links are ready", |f| lead(f, Ok(Some(silent(NOW)))), Some(Level::Warning), "old: no controller has reported since 2026-11-21 11:48:00 UTC"),
    ("Links are ready", |f| status(f, &json!({"conditions": [{"type": "Ready", "status": "False", "reason": "x", "message": "no answer", "lastTransitionTime": NOW}]})), Some(Level::Error), "east: no answer"),
    ("Links are ready", |f| east(f).link.status = None, Some(Level::Error), "east: no status reported yet"),
    ("gateway addresses are accepted", |f| refuse(f, "AllRefused"), Some(Level::Error), "east: all gateway addresses are refused: 127.0.0.1 is a loopback address; allow their networks with the annotation multicluster.linkerd.io/gateway-networks of the Link"),
    ("gateway addresses are accepted", |f| refuse(f, "SomeRefused"), Some(Level::Warning), "east: some gateway addresses are refused: 127.0.0.1"),
    ("probe services able to communicate with all gateway mirrors", |f| f.probes = no(), Some(Level::Error), "east: cannot list probe Services: refused"),
    ("probe services able to communicate with all gateway mirrors", |f| f.probes = Ok(vec![]), Some(Level::Error), "east: probe Service not found"),
    ("probe services able to communicate with all gateway mirrors", |f| { let mut api = f.probes.clone().unwrap(); api[0].metadata.name = Some("api-east".into()); f.probes.as_mut().unwrap().extend(api); }, None, ""),
    ("probe services able to communicate with all gateway mirrors", |f| { let copy = f.probes.clone().unwrap(); f.probes.as_mut().unwrap().extend(copy); }, Some(Level::Error), "found more than one probe Service"),
    ("probe services able to communicate with all gateway mirrors", |f| f.endpoints = Ok(endpoints(&["web-east"])), Some(Level::Error), "east: probe Service probe-east has no endpoints"),
    ("probe services able to communicate with all gateway mirrors", |f| status(f, &json!({"gateway": {"alive": false}})), Some(Level::Error), "east: the gateway at 192.0.2.1 port 4191 fails probes; check its Pods and the firewall"),
    ("probe services able to communicate with all gateway mirrors", |f| status(f, &json!({"gateway": {"alive": false, "since": NOW, "addresses": ["192.0.2.9"]}, "conditions": [{"type": "GatewayAlive", "status": "False", "reason": "ProbeFailed", "message": "connection refused", "lastTransitionTime": NOW}]})), Some(Level::Error), "east: the gateway at 192.0.2.9 port 4191 fails probes since 2026-11-21 12:00:00 UTC: connection refused; check its Pods and the firewall"),
    ("probe services able to communicate with all gateway mirrors", |f| status(f, &json!({"gateway": {}})), Some(Level::Error), "east: the gateway has not answered a probe yet"),
    ("probe services able to communicate with all gateway mirrors", |f| status(f, &json!({"gateway": null})), Some(Level::Error), "east: no status of the gateway reported yet"),
    ("service mirror controller reaches gateways through its proxy", |f| through_gateway(f, "True"), None, ""),
    ("service mirror controller reaches gateways through its proxy", |f| { through_gateway(f, "False"); skip(f, Some("25,8440-8450"), ""); }, Some(Level::Error), "pod linkerd-multicluster/controller-1 skips its proxy on outbound port 8443, so the controller cannot reach API servers behind gateways (east); remove this port from the annotation config.linkerd.io/skip-outbound-ports, and restart the pod: run `kubectl -n linkerd-multicluster delete pod controller-1`"),
    ("service mirror controller reaches gateways through its proxy", |f| { through_gateway(f, "False"); skip(f, None, "443,8443"); }, Some(Level::Error), "remove this port from proxyInit.ignoreOutboundPorts of Linkerd"),
    ("service mirror controller reaches gateways through its proxy", |f| { through_gateway(f, "True"); skip(f, Some("4444,6443"), "443"); }, None, ""),
    ("service mirror controller reaches gateways through its proxy", |f| skip(f, Some("443"), ""), None, ""),
    ("service mirror controller reaches gateways through its proxy", |f| { through_gateway(f, "False"); pod(f).proxy = None; }, Some(Level::Error), "pod linkerd-multicluster/controller-1 has no proxy, so the"),
    ("service mirror controller reaches gateways through its proxy", |f| { through_gateway(f, "False"); f.pods = Ok(vec![]); }, Some(Level::Error), "no pod of the controller is meshed, so the controller cannot reach"),
    ("service mirror controller reaches gateways through its proxy", |f| { through_gateway(f, "False"); f.pods = Ok(vec![]); ours(f).available = 0; }, None, ""),
    ("Linkerd reads EndpointSlices", |f| f.cluster.config = Ok(from(json!({"enableEndpointSlices": false}))), Some(Level::Error), "enableEndpointSlices is off"),
    ("Linkerd reads EndpointSlices", |f| f.cluster.config = Ok(from(json!({"enableEndpointSlices": true}))), None, ""),
    ("Linkerd reads EndpointSlices", |f| f.cluster.config = no(), Some(Level::Error), "cannot read linkerd-config: refused"),
    ("all mirror services have endpoints", |f| f.mirrors = no(), Some(Level::Error), "cannot list mirror services: refused"),
    ("all mirror services have endpoints", |f| f.endpoints = no(), Some(Level::Error), "cannot list EndpointSlices: refused"),
    ("all mirror services have endpoints", |f| f.endpoints = Ok(Endpoints::default()), Some(Level::Error), "Service shop/web-east has no endpoints"),
    ("mirror services have no foreign endpoints", |f| f.foreign = no(), Some(Level::Warning), "cannot list the endpoints of mirrors: refused"),
    ("mirror services have no foreign endpoints", |f| f.foreign = Ok(vec![foreign(EndpointsSource::Endpoints)]), Some(Level::Error), "Service shop/web-east: part of its traffic goes to Endpoints of the same name, which no service mirror created; find out what did, then delete it: run `kubectl -n shop delete endpoints web-east`"),
    ("mirror services have no foreign endpoints", |f| f.foreign = Ok(vec![foreign(EndpointsSource::Slice { name: "mine".into(), manager: "me".into() })]), Some(Level::Error), "Service shop/web-east: part of its traffic goes to EndpointSlice mine (managed by me), which no service mirror created; find out what did, then delete it: run `kubectl -n shop delete endpointslice mine`"),
    ("mirror services have no foreign endpoints", |f| f.foreign = Ok(vec![foreign(EndpointsSource::Slice { name: "mine".into(), manager: String::new() })]), Some(Level::Error), "goes to EndpointSlice mine, which no"),
    ("all mirror services are part of a Link", |f| f.mirrors = Ok(vec![service("web-north", &[(labels::CLUSTER_NAME, "north")], &[])]), Some(Level::Warning), "Service shop/web-north is an orphan: north has no Link: run `linkerd-mc unlink north --apply`"),
    ("all mirror services are part of a Link", |f| f.mirrors = Ok(vec![service("web-north", &[(labels::CLUSTER_NAME, "north")], &[(labels::INSTALLATION, "mc")])]), Some(Level::Warning), "Service shop/web-north is an orphan: north has no Link: run `linkerd-mc unlink north --namespace mc --apply`"),
    ("all mirror services are part of a Link", |f| f.mirrors = Ok(vec![service("web-federated", &[], &[(labels::REMOTE_DISCOVERY, "web@east,web@north")])]), Some(Level::Warning), "Service shop/web-federated has a member in north, which has no Link"),
    ("all mirror services are part of a Link", |f| f.mirrors = Ok(vec![service("web-federated", &[], &[(labels::MEMBERS, "web@east,web@north")])]), Some(Level::Warning), "Service shop/web-federated has a member in north, which has no Link"),
    ("mirror service names do not conflict", |f| status(f, &json!({"mirrorServices": [service_status("web", &condition("False", "NameConflict", "shop/web-east is not ours"))]})), Some(Level::Warning), "east: shop/web: NameConflict (shop/web-east is not ours)"),
    ("all exported services are mirrored", |f| status(f, &json!({"mirrored": 0, "federated": 0, "unhealthy": 1, "federatedServices": [], "mirrorServices": [service_status("web", &condition("False", "MissingNamespace", "x"))]})), Some(Level::Error), "east: shop/web: MissingNamespace (x)"),
    ("all exported services are mirrored", |f| status(f, &json!({"federatedServices": [service_status("web", &condition("False", "MissingNamespace", ""))]})), Some(Level::Warning), "east: shop/web: MissingNamespace"),
    ("all exported services are mirrored", |f| status(f, &json!({"unhealthy": 3})), Some(Level::Warning), "east: 3 more, which do not fit into the Link's status"),
    ("all exported services are mirrored", |f| status(f, &json!({"mirrorServices": [service_status("web", &condition("False", "NameConflict", ""))], "unhealthy": 1})), None, ""),
    ("all exported services are mirrored", |f| status(f, &json!({"conditions": [{"type": "LimitExceeded", "status": "True", "reason": "x", "message": "more than 5 Services", "lastTransitionTime": NOW}]})), Some(Level::Warning), "east: more than 5 Services"),
    ("labels for export select something", |f| unusual(f, labels::EXPORTED, "True"), Some(Level::Warning), "east: the Service shop/web is not exported: no selector of the Link matches its label mirror.linkerd.io/exported=True; did you mean mirror.linkerd.io/exported=true?"),
    ("labels for export select something", |f| unusual(f, labels::EXPORTED, "ture"), Some(Level::Warning), "east: the Service shop/web is not exported: no selector of the Link matches its label mirror.linkerd.io/exported=ture; did you mean mirror.linkerd.io/exported=true?"),
    ("labels for export select something", |f| { unusual(f, labels::EXPORTED, "true"); select(f, labels::EXPORTED, "ture"); }, Some(Level::Warning), "east: the selector of the Link, mirror.linkerd.io/exported=ture, matches no Service, but 1 Service has mirror.linkerd.io/exported=true; did you mean that?: run `kubectl -n linkerd-multicluster edit links.multicluster.linkerd.io east`"),
    ("labels for export select something", |f| unusual(f, labels::EXPORTED, "team-b"), None, ""),
    ("labels for export select something", |f| target(f).labels = no(), Some(Level::Warning), "east: not checked; see the check of its credentials"),
    ("Service range has room for exported services", |f| crowd(f, 5, no()), Some(Level::Warning), "cannot read the Service range: refused"),
    ("Service range has room for exported services", |f| crowd(f, 2, Ok(Some(range()))), None, ""),
    ("Service range has room for exported services", |f| crowd(f, 3, Ok(Some(range()))), Some(Level::Warning), "the Service range 10.96.0.0/29 has 2 ClusterIPs left for mirrors, which leave a quarter of it free, and up to 3 Services wait to be mirrored (3 from east); add a ServiceCIDR"),
    ("all exported services are mirrored", |f| status(f, &json!({"conditions": [{"type": "ClusterIPsExhausted", "status": "True", "reason": "x", "message": "Services waiting for a ClusterIP: 5", "lastTransitionTime": NOW}]})), Some(Level::Warning), "east: Services waiting for a ClusterIP: 5"),
    ("all exported services are mirrored", |f| status(f, &json!({"federatedServices": [service_status("web", &json!({"type": "Mirrored", "status": "False", "reason": "Drained", "message": "", "lastTransitionTime": NOW}))]})), None, ""),
    ("drained clusters have left federated services", |f| status(f, &json!({"conditions": [{"type": "Drained", "status": "True", "reason": "Drained", "message": "until then", "lastTransitionTime": NOW}]})), None, ""),
    ("drained clusters have left federated services", |f| status(f, &json!({"conditions": [{"type": "Drained", "status": "True", "reason": "LastMember", "message": "until then; 1 more", "lastTransitionTime": NOW}]})), Some(Level::Warning), "east: drained until then; 1 more: run `linkerd-mc status --services --cluster-name east`"),
    ("members of federated services have equal ports", |f| status(f, &json!({"federatedServices": [service_status("web", &condition("True", "PortConflict", "ports differ"))]})), Some(Level::Warning), "east: shop/web: ports differ"),
    ("gateway forwards to what it should", |f| forward(f, None, "svc.cluster.local."), None, ""),
    ("gateway forwards to what it should", |f| forward(f, None, "shop.svc.cluster.local."), Some(Level::Warning), "pod linkerd-multicluster/controller-1 forwards only to shop.svc.cluster.local.; apply the output of `install` again, with your values"),
    ("gateway forwards to what it should", |f| forward(f, Some("gw"), "shop.svc.cluster.local."), None, ""),
    ("gateway forwards to what it should", |f| { forward(f, None, "svc.cluster.local."); pod(f).id.name = "linkerd-api-gateway-1".into(); }, Some(Level::Warning), "pod linkerd-multicluster/linkerd-api-gateway-1 leads controllers of other clusters to svc.cluster.local., and not only to the API server"),
    ("gateway forwards to what it should", |f| { forward(f, Some("gw"), ""); f.exports = Ok(vec![]); }, None, ""),
    ("gateway forwards to what it should", |f| forward(f, Some("gw"), "svc.cluster.local."), Some(Level::Warning), "forwards to all Services of this cluster, exported or not, until it is replaced. Versions of Linkerd before edge-26.4.3"),
    ("gateway forwards to what it should", |f| forward(f, Some("gw"), "team.svc.cluster.local."), Some(Level::Warning), "does not forward to shop/web, which other clusters may use, until it is replaced: run `kubectl -n linkerd-multicluster rollout status deployment/gw`"),
    ("gateway forwards to what it should", |f| permitting(f, |_, _| ()), None, ""),
    ("gateway forwards to what it should", |f| permitting(f, |to, _| to.is_whole = true), Some(Level::Warning), "the AuthorizationPolicy linkerd-gateway permits all that the gateway forwards to, exported or not"),
    ("gateway forwards to what it should", |f| permitting(f, |to, _| to.hosts.clear()), Some(Level::Warning), "the gateway has no route for shop/web, so it answers with 404"),
    ("gateway forwards to what it should", |f| permitting(f, |to, of| { to.hosts.clear(); of.consent = None; }), Some(Level::Warning), "shop/web: the annotation multicluster.linkerd.io/export-to is invalid, so no cluster may use it"),
    ("gateway forwards to what it should", |f| permitting(f, |_, of| of.is_opaque = true), Some(Level::Warning), "shop/web: opaque ports are not forwarded with gateway.forward=permitted"),
    ("gateway forwards to what it should", |f| { permitting(f, |_, _| ()); f.permits = no(); }, Some(Level::Warning), "cannot read the policy of the gateway: refused"),
    ("gateway forwards to what it should", |f| { forward(f, Some("gw"), "team.svc.cluster.local."); f.exports = no(); }, Some(Level::Warning), "cannot list exported Services: refused"),
    ("preferences of federated services are applied", |f| f.local_members = no(), Some(Level::Warning), "cannot list the local members: refused"),
    ("preferences of federated services are applied", |f| prefer(f, "north=20,local=80", ""), Some(Level::Warning), "Service shop/web-federated prefers north, which has no Link (linked: east); create one: run `linkerd-mc link`"),
    ("preferences of federated services are applied", |f| prefer(f, "eest,local", ""), Some(Level::Warning), "Service shop/web-federated prefers eest, which has no Link (linked: east); did you mean east,local?"),
    ("preferences of federated services are applied", |f| { prefer(f, "north", ""); east(f).unreadable = Some("x".into()); }, None, ""),
    ("preferences of federated services are applied", |f| ask(f, "east,east"), Some(Level::Warning), "Service shop/web: invalid annotation multicluster.linkerd.io/prefer: duplicate cluster east; use an order such as local,east, or weights such as east=80,local=20"),
    ("preferences of federated services are applied", |f| ours(f).applies_preferences = false, Some(Level::Warning), "Service shop/web prefers local,east, but the controller does not write routes; enable routes with `install --set federation.routes=true` and your values"),
    ("preferences of federated services are applied", |f| { ours(f).applies_preferences = false; ask(f, "east,east"); }, Some(Level::Warning), "duplicate cluster east"),
    ("preferences of federated services are applied", |f| { ours(f).applies_preferences = false; f.local_members = Ok(vec![]); }, None, ""),
    ("preferences of federated services are applied", |f| said(f, "NoRoutes", "no cluster is preferred: HTTPRoute is not installed"), Some(Level::Warning), "shop/web: no cluster is preferred: HTTPRoute is not installed; install the CRDs of the Gateway API"),
    ("preferences of federated services are applied", |f| { ours(f).applies_preferences = false; f.local_members = Ok(vec![]); said(f, "NoRoutes", "no cluster is preferred: routes are not enabled in this installation"); }, Some(Level::Warning), "shop/web: no cluster is preferred: routes are not enabled in this installation; enable routes with `install --set federation.routes=true`"),
    ("preferences of federated services are applied", |f| said(f, "RouteNotAccepted", "no cluster is preferred: Linkerd has not accepted TCPRoute db-1"), Some(Level::Warning), "shop/web: no cluster is preferred: Linkerd has not accepted TCPRoute db-1; install the experimental channel of the Gateway API, which serves both versions"),
    ("preferences of federated services are applied", |f| said(f, "RouteConflict", "no cluster is preferred: HTTPRoute mine already routes these requests"), Some(Level::Warning), "shop/web: no cluster is preferred: HTTPRoute mine already routes these requests; delete that route, or the annotation multicluster.linkerd.io/prefer"),
    ("preferences of federated services are applied", |f| { f.local_members = Ok(vec![]); said(f, "InvalidPreference", "no cluster is preferred: the list of clusters is empty"); }, Some(Level::Warning), "shop/web: no cluster is preferred: the list of clusters is empty; use an order such as"),
    ("preferences of federated services are applied", |f| { f.local_members = Ok(vec![]); said(f, "PreferenceIgnored", "ignored"); }, Some(Level::Warning), "shop/web: ignored; set multicluster.linkerd.io/prefer on that Link"),
    ("preferences of federated services are applied", |f| { ask(f, ","); said(f, "InvalidPreference", "told once"); }, Some(Level::Warning), "the list of clusters is empty"),
    ("preferences of federated services are applied", |f| f.routes = no(), Some(Level::Warning), "cannot list routes: refused"),
    ("preferences of federated services are applied", |f| f.routes = Ok(vec![route("web-federated-80")]), None, ""),
    ("preferences of federated services are applied", |f| { ours(f).applies_preferences = false; f.local_members = Ok(vec![]); f.routes = Ok(vec![route("web-federated-80")]); }, Some(Level::Warning), "HTTPRoute shop/web-federated-80 is left, and still prefers a cluster, but the controller does not write routes\nthe controller deletes such routes, and then the mirrors that they lead to; if it does not run, or lacks the rights, apply the output of `install` with your values, or delete them with kubectl: run `kubectl -n shop delete httproutes.gateway.networking.k8s.io web-federated-80`"),
    ("preferences of federated services are applied", |f| { ours(f).id.namespace = "other".into(); f.routes = Ok(vec![route("web-federated-80")]); }, Some(Level::Warning), "HTTPRoute shop/web-federated-80 is left"),
    ("preferred clusters receive the requests to federated services", |f| prefer(f, "local,east", "local=2026-11-21T11:55:00Z/2026-11-21T12:00:20Z"), Some(Level::Warning), "Service shop/web-federated prefers local,east; failed over to east: local became unavailable at 2026-11-21 11:55:00 UTC and receives requests again at 2026-11-21 12:00:20 UTC\nsee which clusters receive the requests now: run `linkerd-mc status --services`"),
    ("preferred clusters receive the requests to federated services", |f| prefer(f, "east=8,local=2", "east=2026-11-21T11:55:00Z/.."), Some(Level::Warning), "Service shop/web-federated prefers east=8,local=2; failed over to local: east became unavailable at 2026-11-21 11:55:00 UTC"),
    ("preferred clusters receive the requests to federated services", |f| prefer(f, "local,east", "east=2026-11-21T11:55:00Z/.."), None, ""),
    ("trust anchors are not about to end", |f| f.now = "2036-09-18T00:00:00Z".parse().unwrap(), None, ""),
    ("trust anchors are not about to end", |f| f.now = "2036-09-20T00:00:00Z".parse().unwrap(), Some(Level::Warning), "this cluster: trust anchor CN=root.linkerd.cluster.local ends on 2036-11-18 11:16 UTC; change it before its end, in all linked clusters (docs/trust.md)\neast: trust anchor CN=root"),
    ("trust anchors are not about to end", |f| f.now = "2036-12-01T00:00:00Z".parse().unwrap(), Some(Level::Error), "this cluster: trust anchor CN=root.linkerd.cluster.local ended on 2036-11-18 11:16 UTC; change it"),
    ("trust anchors are not about to end", |f| f.now = "2026-01-01T00:00:00Z".parse().unwrap(), Some(Level::Error), "this cluster: trust anchor CN=root.linkerd.cluster.local is not valid before 2026-11-21 11:16 UTC"),
    ("trust anchors are not about to end", |f| f.cluster.config = no(), Some(Level::Warning), "this cluster: not checked, because refused"),
    ("trust anchors are not about to end", |f| target(f).config = Ok(config("")), Some(Level::Warning), "east: not checked, because no certificate found"),
    ("trust anchors are not about to end", |f| east(f).target = Some(no()), Some(Level::Warning), "east: not checked; see the check of its credentials"),
    ("trust anchors are not about to end", |f| through_gateway(f, "True"), None, ""),
    ("Linkerd's issuer certificate is not about to end", |f| f.issuer = Ok(issuer("2026-11-20T12:00:00Z", "2026-11-22T12:00:00Z")), None, ""),
    ("Linkerd's issuer certificate is not about to end", |f| f.issuer = Ok(issuer("2026-11-19T18:00:00Z", "2026-11-21T18:00:00Z")), Some(Level::Warning), "Linkerd's issuer certificate ends on 2026-11-21 18:00 UTC; renew it (docs/trust.md)"),
    ("Linkerd's issuer certificate is not about to end", |f| f.issuer = Ok(issuer("2026-11-19T12:00:00Z", NOW)), Some(Level::Error), "Linkerd's issuer certificate ended on 2026-11-21 12:00 UTC"),
    ("Linkerd's issuer certificate is not about to end", |f| f.issuer = no(), Some(Level::Warning), "not checked, because refused"),
    ("Linkerd's issuer signs only names of this cluster", |f| f.issuer = no(), Some(Level::Warning), "not checked; see the check of its end"),
    ("Linkerd's issuer signs only names of this cluster", |f| f.cluster.config = no(), Some(Level::Warning), "not checked, because refused"),
    ("Linkerd's issuer signs only names of this cluster", |f| chained(f, &[&[]]), Some(Level::Warning), "it may sign the names of all workloads of all clusters: whoever has its key can be any of them, for each cluster that shares a trust anchor (east); give each cluster an issuer of its own trust domain (docs/trust.md)"),
    ("Linkerd's issuer signs only names of this cluster", |f| chained(f, &[&["DNS:west.example"]]), Some(Level::Warning), "its name constraints say nothing of URIs, so it may sign the SPIFFE identity of every workload: whoever"),
    ("Linkerd's issuer signs only names of this cluster", |f| chained(f, &[&["DNS:example", "URI:west.example"]]), Some(Level::Warning), "its name constraints permit the names of workloads of other clusters: whoever"),
    ("Linkerd's issuer signs only names of this cluster", |f| chained(f, &[&["DNS:north.example", "URI:north.example"]]), Some(Level::Error), "do not permit names of the trust domain west.example of this cluster, so proxies refuse"),
    ("Linkerd's issuer signs only names of this cluster", |f| chained(f, &[&[], &["DNS:identity.linkerd.west.example", "URI:west.example"]]), None, ""),
    ("Linkerd's issuer signs only names of this cluster", |f| { chained(f, &[&[]]); f.cluster.config.as_mut().unwrap().identity_trust_anchors_pem = constrained_anchor(); }, None, ""),
    ("trust domains of linked clusters are known", |f| target(f).config = no(), Some(Level::Warning), "east: not checked; see the check of its credentials"),
    ("domains of target clusters are right", |f| east(f).link.spec.gateway_identity = "gw.mc.serviceaccount.identity.linkerd.north.example".into(), Some(Level::Error), "east: its trust domain is east.example, and the Link expects the gateway to be gw.mc.serviceaccount.identity.linkerd.north.example, so proxies refuse its certificates; link it again: run `linkerd-mc link`"),
    ("domains of target clusters are right", |f| east(f).link.spec.gateway_identity = "gw.mc.serviceaccount.identity.linkerd.east.example".into(), None, ""),
    ("domains of target clusters are right", |f| linkerds(f).trust_domain = "cluster.local".into(), Some(Level::Error), "east: its trust domain is east.example, and Linkerd expects its workloads in cluster.local, so"),
    ("proxies renew their certificates", |f| f.certificates = Ok(certificate("2026-11-20T13:00:00Z", "2026-11-21T13:00:00Z")), Some(Level::Warning), "the certificate of the proxy of pod linkerd-multicluster/controller-1 ends on 2026-11-21 13:00 UTC; the proxy should have a new one"),
    ("proxies renew their certificates", |f| f.certificates = Ok(certificate("2026-11-20T11:00:00Z", "2026-11-21T11:00:00Z")), Some(Level::Error), "ended on 2026-11-21 11:00 UTC"),
    ("proxies renew their certificates", |f| f.certificates = no(), Some(Level::Warning), "not checked, because refused"),
    ("proxies renew their certificates", |f| f.certificates = Ok(unread()), Some(Level::Warning), "not checked, because pod linkerd/identity-1: it was slow"),
    ("clocks of clusters agree", |f| target(f).ahead = jiff::SignedDuration::from_secs(-20), None, ""),
    ("clocks of clusters agree", |f| target(f).ahead = jiff::SignedDuration::from_secs(-21), Some(Level::Warning), "east: the clock of its API server is 21 s behind that of this cluster's; from 20 s on, proxies refuse new certificates"),
    ("clocks of clusters agree", |f| { f.ahead = jiff::SignedDuration::from_secs(50); target(f).ahead = jiff::SignedDuration::from_secs(60); }, None, ""),
    ("clocks of clusters agree", |f| { skew(f, "5s"); target(f).ahead = jiff::SignedDuration::from_secs(6); }, Some(Level::Warning), "is 6 s ahead of that of this cluster's; from 5 s on"),
    ("clocks of clusters agree", |f| east(f).target = Some(no()), Some(Level::Warning), "east: not checked; see the check of its credentials"),
    ("Pod networks do not overlap", overlap, Some(Level::Error), "east: 10.1.0.9 of a Pod there is in 10.1.0.0/24, a network of this cluster's own Pods, so requests to its Pods, such as those of Service shop/api-east, never leave this cluster; export through the gateway"),
    ("Pod networks do not overlap", |f| { overlap(f); f.mirrors = Ok(vec![service("web-federated", &[], &[(labels::REMOTE_DISCOVERY, "web@east")])]); }, Some(Level::Error), "Service shop/web-federated"),
    ("Pod networks do not overlap", |f| { overlap(f); f.mirrors = Ok(vec![]); }, Some(Level::Warning), "so mirrors and federated Services without a gateway will not work"),
    ("Pod networks do not overlap", |f| f.pod_networks = no(), Some(Level::Warning), "not checked, because refused"),
    ("Pod networks do not overlap", |f| target(f).pods = no(), Some(Level::Warning), "east: not checked, because refused"),
    ("Pod networks do not overlap", |f| east(f).target = Some(no()), Some(Level::Warning), "east: not checked; see the check of its credentials"),
    ("Linkerd's destination controller can be restarted", |f| f.meshed = Ok(3_604), Some(Level::Warning), "after a restart of linkerd-destination, each of its 3 Pods lists 1 cluster again: 15 lists; 3604 proxies ask it again, about 1201 each Pod at once, and from 1200 on it may not recover"),
    ("Linkerd's destination controller can be restarted", |f| f.meshed = no(), None, ""),
    ("Linkerd's destination controller can be restarted", |f| f.destination = no(), Some(Level::Warning), "not checked, because refused"),
    ("multicluster extension proxies are healthy", |f| f.pods = no(), Some(Level::Warning), "cannot list pods: refused"),
    ("multicluster extension proxies are healthy", |f| f.pods = Ok(vec![]), Some(Level::Warning), "no pod of the extension has a proxy"),
    ("multicluster extension proxies are healthy", |f| pod(f).phase = "Pending".into(), Some(Level::Warning), "pod linkerd-multicluster/controller-1 is Pending"),
    ("multicluster extension proxies are healthy", |f| pod(f).proxy = None, Some(Level::Warning), "pod linkerd-multicluster/controller-1 has no proxy"),
    ("multicluster extension proxies are healthy", |f| pod(f).proxy.as_mut().unwrap().ready = false, Some(Level::Warning), "is not ready"),
    ("multicluster extension proxies are healthy", |f| pod(f).proxy.as_mut().unwrap().trust_anchors = Some(B.into()), Some(Level::Warning), "differ from those of the control plane"),
    ("multicluster extension proxies are healthy", |f| { let mut gone = pod(f).clone(); gone.phase = "Failed".into(); gone.reason = "NodeShutdown".into(); f.pods.as_mut().unwrap().push(gone); }, None, ""),
    ("multicluster extension proxies are up-to-date", |f| pod(f).proxy.as_mut().unwrap().image = "registry.example/proxy:edge-26.7.1".into(), Some(Level::Warning), "is edge-26.7.1, but the control plane's is edge-26.8.1"),
    ("multicluster extension proxies are up-to-date", |f| pod(f).proxy.as_mut().unwrap().image = "registry.example/proxy@sha256:00".into(), None, ""),
    ("multicluster extension proxies are up-to-date", |f| f.cluster.config.as_mut().unwrap().rest.insert("proxy".into(), json!({"image": {"version": "custom"}})).map_or((), drop), Some(Level::Warning), "the control plane's is custom"),
    ("multicluster extension proxies are up-to-date", |f| versions(f, "enterprise-2.20.2", "enterprise-2.20.2"), None, ""),
    ("multicluster extension proxies are up-to-date", |f| versions(f, "enterprise-2.20.2", "enterprise-2.20.1"), Some(Level::Warning), "is enterprise-2.20.1, but the control plane's is enterprise-2.20.2"),
    ("multicluster extension proxies are up-to-date", |f| versions(f, "stable-2.14.10", "stable-2.14.10"), None, ""),
];

/// The proxy of one Pod could not be read.
fn unread() -> ProxyCertificates {
    let pod = ResourceId::new("linkerd", "identity-1");
    let why = "it was slow".to_owned();
    ProxyCertificates {
        unread: BTreeMap::from([(pod, why)]),
        ..ProxyCertificates::default()
    }
}

/// By how much Linkerd dates certificates back.
fn skew(snapshot: &mut FullSnapshot, allowed: &str) {
    let config = snapshot.cluster.config.as_mut().unwrap();
    let identity = json!({ "issuer": { "clockSkewAllowance": allowed } });
    config.rest.insert("identity".into(), identity);
}

/// A Pod of the target cluster has an address of this cluster's own Pods.
fn overlap(snapshot: &mut FullSnapshot) {
    target(snapshot).pods = Ok(vec!["10.1.0.9".parse().unwrap()]);
}

/// Sets what is known of the controller's Lease.
fn lead(snapshot: &mut FullSnapshot, leader: Known<Option<Leader>>) {
    let leaders = &mut snapshot.cluster.leaders;
    leaders.insert("linkerd-multicluster".to_owned(), leader);
}

fn destination(snapshot: &mut FullSnapshot) -> &mut Destination {
    snapshot.destination.as_mut().unwrap()
}

fn linkerds(snapshot: &mut FullSnapshot) -> &mut LinkerdCredentials {
    destination(snapshot).credentials.get_mut("east").unwrap()
}

fn expire(snapshot: &mut FullSnapshot, at: &str) {
    let expiry = Some(at.parse().unwrap());
    east(snapshot).credentials = Some(Ok(LinkCredentials {
        expiry,
        ..LinkCredentials::default()
    }));
}

/// An API server that these CAs certify.
fn trusting(authorities: &[&str]) -> Identity {
    let authorities = authorities.iter().map(|of| of.as_bytes().to_vec());
    Identity {
        authorities: authorities.collect(),
        ..Identity::default()
    }
}

/// The CAs of the API server that the Link leads to.
fn trust(snapshot: &mut FullSnapshot, authorities: &[&str]) {
    east(snapshot).credentials = Some(Ok(LinkCredentials {
        identity: trusting(authorities),
        ..LinkCredentials::default()
    }));
}

/// The same for an API server behind a gateway.
fn behind(snapshot: &mut FullSnapshot, authorities: &[&str]) {
    trust(snapshot, authorities);
    through_gateway(snapshot, "True");
}

/// Adds a Link to the API server of another cluster, with these CAs.
fn also(snapshot: &mut FullSnapshot, cluster: &str, authorities: &[&str]) {
    let mut other = well();
    trust(&mut other, authorities);
    let mut link = east(&mut other).clone();
    link.link.spec.target_cluster_name = cluster.to_owned();
    snapshot.cluster.links.as_mut().unwrap().push(link);
}

/// The token of an account in this namespace never expires.
fn endless(snapshot: &mut FullSnapshot, namespace: &str) {
    east(snapshot).credentials = Some(Ok(LinkCredentials {
        endless_in: Some(namespace.to_owned()),
        ..LinkCredentials::default()
    }));
}

fn foreign(by: EndpointsSource) -> ForeignEndpoints {
    ForeignEndpoints {
        mirror: ResourceId::new("shop", "web-east"),
        by,
    }
}

fn range() -> ServiceRange {
    ServiceRange {
        networks: vec!["10.96.0.0/29".parse().unwrap()],
        used: 2,
    }
}

/// Makes this number of Services wait to be mirrored.
pub fn crowd(snapshot: &mut FullSnapshot, waiting: i64, range: Known<Option<ServiceRange>>) {
    status(
        snapshot,
        &json!({"mirrored": 2, "federated": 1, "unhealthy": waiting}),
    );
    snapshot.range = range;
}

fn insecure(snapshot: &mut FullSnapshot, insecure: InsecureTls) {
    east(snapshot).credentials = Some(Ok(LinkCredentials {
        insecure: Some(insecure),
        ..LinkCredentials::default()
    }));
}

fn refuse(snapshot: &mut FullSnapshot, reason: &str) {
    let condition = json!({
        "type": "GatewayAddressRefused", "status": "True", "reason": reason,
        "message": "127.0.0.1 is a loopback address", "lastTransitionTime": NOW,
    });
    status(snapshot, &json!({ "conditions": [condition] }));
}

/// Sets the preference of the local member.
fn ask(snapshot: &mut FullSnapshot, preference: &str) {
    snapshot.local_members = Ok(vec![service("web", &[], &[(labels::PREFER, preference)])]);
}

/// Sets the preference of the federated Service, and its failover state.
pub fn prefer(snapshot: &mut FullSnapshot, preference: &str, failed_over: &str) {
    snapshot.mirrors = Ok(vec![federated(preference, failed_over)]);
}

/// Sets what the Link's status reports about the preference of its member.
fn said(snapshot: &mut FullSnapshot, reason: &str, message: &str) {
    let service = service_status("web", &condition("True", reason, message));
    status(snapshot, &json!({ "federatedServices": [service] }));
}

fn permit(snapshot: &mut FullSnapshot, rule: AccessRule) {
    target(snapshot).rules.as_mut().unwrap().push(rule);
}

fn second(snapshot: &mut FullSnapshot, name: &str, component: &str, cluster: Option<&str>) {
    let second = deployment(name, component, cluster);
    snapshot.deployments.as_mut().unwrap().push(second);
}

/// The exported Service.
pub fn export() -> Export {
    Export {
        id: ResourceId::new("shop", "web"),
        is_opaque: false,
        consent: Some(ExportConsent::All),
    }
}

/// The gateway permits only exported Services, or should.
pub fn permitting(
    snapshot: &mut FullSnapshot,
    change: impl FnOnce(&mut GatewayPermits, &mut Export),
) {
    forward(snapshot, Some("gw"), "shop.svc.cluster.local.");
    ours(snapshot).permits_exports = true;
    let export = &mut snapshot.exports.as_mut().unwrap()[0];
    change(snapshot.permits.as_mut().unwrap(), export);
}

/// Sets what the gateway should forward to, and what it forwards to.
pub fn forward(snapshot: &mut FullSnapshot, should: Option<&str>, suffixes: &str) {
    ours(snapshot).export_gateway = should.map(str::to_owned);
    let proxy = pod(snapshot).proxy.as_mut().unwrap();
    proxy.forwards_to = Some(GatewaySuffixes::of_variable(suffixes));
}

/// Linkerd has this version, and all proxies have that one.
pub fn versions(snapshot: &mut FullSnapshot, linkerd: &str, proxies: &str) {
    let config = snapshot.cluster.config.as_mut().unwrap();
    config.rest.insert("linkerdVersion".into(), json!(linkerd));
    for pod in snapshot.pods.as_mut().unwrap() {
        if let Some(proxy) = &mut pod.proxy {
            proxy.image = format!("registry.example/proxy:{proxies}");
        }
    }
}
