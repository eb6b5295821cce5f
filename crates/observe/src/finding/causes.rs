//! All causes that `diagnose` names, as one table: the layer, what each means, and what fixes it. `docs/reference/causes.md`
//! is generated from it.

use self::Layer::{Answers, Client, Discovery, Network, Objects, Policy, Target};

/// A part of the way of a request, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The mirror or federated Service, its Links and its controller.
    Objects,
    /// The Pod that calls, and its proxy.
    Client,
    /// What Linkerd's policy controller tells the client's proxy: where requests go.
    Policy,
    /// What Linkerd's destination controller tells the client's proxy: the endpoints.
    Discovery,
    /// From cluster to cluster: the gateway, or the network of Pods.
    Network,
    /// The Service in the target cluster, and its Pods.
    Target,
    /// What the client's proxy counts.
    Answers,
}

impl Layer {
    /// All, in order.
    pub const ALL: [Self; 7] = [Objects, Client, Policy, Discovery, Network, Target, Answers];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Objects => "objects",
            Client => "client",
            Policy => "policy",
            Discovery => "discovery",
            Network => "network",
            Target => "target",
            Answers => "answers",
        }
    }

    /// What is looked at, for the reference.
    #[cfg(test)]
    pub fn about(self) -> &'static str {
        match self {
            Objects => "The mirror or federated Service, its Links, and their controller.",
            Client => "The Pod that calls, and its proxy. Only with `--from`.",
            Policy => {
                "What Linkerd's policy controller tells the proxy of the calling Pod: the routes and backends of its requests. Only with `--from`."
            }
            Discovery => {
                "What Linkerd's destination controller has to know: its Pods, and its credentials for target clusters. With `--from` also the endpoints that it tells the proxy."
            }
            Network => {
                "The way between the clusters: the gateway, by its probes, or the networks of Pods. No connection is opened."
            }
            Target => {
                "The Service in the target cluster, its Pods, who may connect to them, and the trust anchors of both clusters. Only with `--target`."
            }
            Answers => {
                "What the proxy of the calling Pod counts for this Service. Only with `--from`."
            }
        }
    }
}

/// A row of the table of causes.
pub struct CauseInfo {
    /// Its name: one word.
    pub name: &'static str,
    /// What it means, in one or two sentences.
    pub meaning: &'static str,
    /// What fixes it, in one or two sentences.
    pub fix: &'static str,
}

/// Makes the type, its rows and their order from one table.
macro_rules! causes {
    ($($cause:ident in $layer:ident: $meaning:literal, $fix:literal;)*) => {
        /// Why requests fail, or do not go where they should.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Cause {
            $(#[doc = $meaning] $cause,)*
        }

        impl Cause {
            /// All, in the order of the layers.
            #[cfg(test)]
            pub const ALL: &[Self] = &[$(Self::$cause),*];

            /// The layer that it belongs to. With less rights, it may be found in an earlier or a later one.
            #[cfg(test)]
            pub fn layer(self) -> Layer {
                match self {
                    $(Self::$cause => $layer,)*
                }
            }

            /// Its row of the table.
            pub fn info(self) -> CauseInfo {
                match self {
                    $(Self::$cause => CauseInfo {
                        name: stringify!($cause),
                        meaning: $meaning,
                        fix: $fix,
                    },)*
                }
            }
        }
    };
}

causes! {
    LinkMissing in Objects:
        "The mirror belongs to a target cluster that has no Link. Its controller removes such mirrors.",
        "Link the cluster again, or call another Service.";
    LinkInvalid in Objects:
        "The Link to the target cluster cannot be used: a field is invalid, or an older Link has the same cluster.",
        "Correct or delete the Link, as the evidence says.";
    ControllerDown in Objects:
        "No controller is active. Existing mirrors go on to work as they are; what is missing or not ready stays so, and what the Link's status says is old.",
        "Start the controller, and look at its Pods if it does not stay.";
    LeaseHeldByNobody in Objects:
        "Controllers run, but none of them leads: the Lease is held by a name that is none of their Pods, and nobody renews it.",
        "Delete the Lease. A controller creates it again at once.";
    CredentialsUnusable in Objects:
        "The Secret with the credentials of the Link is missing, or cannot be used.",
        "Link the cluster again, which writes both Secrets.";
    CredentialsExpired in Objects:
        "The token of the Link has expired, and the target cluster refuses it.",
        "Rotate the credentials of the Link.";
    CredentialsRefused in Objects:
        "The target cluster refuses the token of the Link: it was revoked, or its ServiceAccount was deleted.",
        "Rotate the credentials of the Link.";
    CertificateInvalid in Objects:
        "The certificate of the target cluster's API server cannot be verified with the authority in the Link's credentials.",
        "Link the cluster again, with its current authority.";
    TargetApiUnreachable in Objects:
        "The controller cannot reach the API server of the target cluster, so changes there do not arrive. Existing mirrors go on to work.",
        "Check the API server, its address in the Link's credentials, and the firewall between the clusters.";
    NamespaceMissing in Objects:
        "The source cluster has no namespace of this name, and the controller may not create it.",
        "Create the namespace.";
    NamespaceNotAllowed in Objects:
        "The target cluster may not mirror into this namespace: it is protected, or the Link does not allow it.",
        "Allow the namespace in the Link, if the target cluster may use it.";
    NameConflict in Objects:
        "Another object has the name of the mirror, and the controller never changes what is not its own.",
        "Rename or delete the other object.";
    NameTooLong in Objects:
        "The name of the mirror would have more than 63 characters.",
        "Export the Service under a shorter name.";
    ServiceInvalid in Objects:
        "The Service is of a kind that cannot be mirrored, such as `ExternalName`, or has no ports.",
        "Change the Service in the target cluster.";
    LimitExceeded in Objects:
        "The target cluster exports more than the Link's limit, so this Service is left out.",
        "Export fewer Services, or raise the limit of the controller.";
    FederationNotAllowed in Objects:
        "The Link does not let its cluster join this federated Service.",
        "Change what the Link allows, if the cluster may take part.";
    ExportedToOthers in Objects:
        "The target cluster exports the Service to some clusters only, by their trust domains. The source cluster is not among them, or the annotation is invalid.",
        "Name the trust domain of the source cluster in the annotation `multicluster.linkerd.io/export-to` of the Service, if it may use the Service.";
    NoClusterIp in Objects:
        "The source cluster has no ClusterIP left for the mirror.",
        "Delete unused Services, or add a ServiceCIDR.";
    NoGateway in Objects:
        "The Service is reached through a gateway, and the Link has none.",
        "Link the cluster again with its gateway (`--gateway`).";
    NoDiscovery in Objects:
        "Linkerd cannot discover the Pods of the Service, because the API server of its cluster is reached through a gateway only.",
        "Export the Service through the gateway.";
    WriteFailed in Objects:
        "The controller cannot write the mirror; the evidence has the answer of the API server. It tries again.",
        "Remove what refuses the write, such as a policy or a quota.";
    NotExported in Objects:
        "The target cluster exports no Service of this name: it lacks the label, or does not exist there.",
        "Label the Service in the target cluster.";
    NotMirroredYet in Objects:
        "The target cluster has what is missing here, and no obstacle is known. The controller may be about to write it.",
        "Run the command again after some seconds; `plan` shows what is left to do.";
    PortNotDeclared in Objects:
        "The Service does not declare the port that is called. Linkerd refuses such requests; since edge-26.7.1 it does not revise its refusal while a client goes on to ask.",
        "Call a port of the Service, or declare the port in the target cluster. Clients that asked before have to pause for 10 s, or to restart.";
    PortConflict in Objects:
        "Members of the federated Service declare different ports, and the one that is called is not among those that it has.",
        "Give all members the same ports.";
    ForeignEndpoints in Objects:
        "Endpoints that no controller of ours created are under the name of the mirror, and get a part of its requests.",
        "Find out who created them, and delete them.";
    RouteBackendMissing in Objects:
        "A route of somebody else sends requests to a Service that does not exist: all of them, or those of some of its rules and backends.",
        "Correct the route.";
    RouteConflict in Objects:
        "A route of somebody else decides where the requests to the federated Service go, so its preference is not in force.",
        "Delete the other route, or the preference.";
    ServiceProfileConflict in Objects:
        "A `ServiceProfile` decides where the requests to the federated Service go. Proxies prefer it to routes, so the preference is not in force.",
        "Delete the ServiceProfile, or the preference.";
    ForeignRoute in Objects:
        "A route of somebody else sends the requests to other Services.",
        "Correct or delete the route, if that is not wanted.";
    PreferenceInvalid in Objects:
        "The preference of the federated Service is invalid, or cannot be applied, so all members get its requests.",
        "Correct the annotation.";
    Drained in Objects:
        "The target cluster is drained: it takes no part in federated Services that have another member.",
        "End the drain.";
    FailedOver in Objects:
        "A preferred cluster was unavailable, and others get its requests until its hold-down has ended.",
        "Repair the preferred cluster; its requests come back by themselves.";
    ClientNotRunning in Client:
        "The Pod that calls does not run.",
        "Name a Pod that runs, or look at why this one does not.";
    ClientTerminating in Client:
        "The Pod that calls is being deleted, and its proxy has ended or ends soon.",
        "Name a Pod that stays. If it should stay, find out who deletes it.";
    NotInjected in Client:
        "The Pod that calls has no proxy. Mirrors and federated Services work only through Linkerd's proxy.",
        "Inject the workload.";
    OutboundPortSkipped in Client:
        "Connections to this port bypass the proxy of the Pod that calls, so they go to a ClusterIP whose endpoint is no Pod.",
        "Set the annotation `config.linkerd.io/skip-outbound-ports` of the workload without the port. It counts more than that of the namespace.";
    OutboundSubnetSkipped in Client:
        "Connections to the ClusterIP of the Service bypass the proxy of the Pod that calls, so they go to a ClusterIP whose endpoint is no Pod.",
        "Set the annotation `config.linkerd.io/skip-subnets` of the workload without the subnet. It counts more than that of the namespace.";
    ProxyNotReady in Client:
        "The proxy of the Pod that calls is not ready: it has no identity, or does not reach Linkerd's control plane.",
        "Look at the log of the proxy.";
    ClientTrustRootsDiffer in Client:
        "The proxy of the Pod that calls was started with other trust anchors than its cluster has now.",
        "Restart the workload.";
    UnknownToLinkerd in Policy:
        "Linkerd's controllers do not know the Service or its port, although the API server has it. Proxies treat such connections as ones that leave the mesh, or refuse them.",
        "Restart Linkerd's destination controller, and look at its log if that does not help.";
    DestinationDown in Discovery:
        "No Pod of Linkerd's destination controller is ready: proxies that need an answer get none, and others keep what they know.",
        "Start it again, and look at its Pods if it does not stay.";
    LinkerdSecretMissing in Discovery:
        "Linkerd has no credentials for the target cluster, so it finds no Pods there.",
        "Link the cluster again, which writes Linkerd's Secret, then restart the destination controller.";
    LinkerdSecretIgnored in Discovery:
        "Linkerd ignores its Secret for the target cluster, because it is incomplete.",
        "Delete the Secret, and link the cluster again.";
    LinkerdSecretStale in Discovery:
        "Linkerd's destination controller started before its credentials for the target cluster were written, and does not use them.",
        "Restart the destination controller.";
    LinkerdCredentialsDiffer in Discovery:
        "The tokens in Linkerd's Secret and in the controller's Secret differ: one of them is old.",
        "Rotate the credentials of the Link, which replaces both.";
    LinkerdCredentialsExpired in Discovery:
        "The token in Linkerd's Secret for the target cluster has expired. Proxies keep the last endpoints.",
        "Rotate the credentials of the Link.";
    EndpointsNotTold in Discovery:
        "The Service has ready endpoints, and Linkerd tells the client's proxy of none of them. It has not heard of them: its watch is broken, or the target cluster refuses its credentials.",
        "Restart the destination controller. For a target cluster, rotate the credentials of the Link, which does that too, and check that Linkerd's Pods reach its API server.";
    EndpointsStale in Discovery:
        "Linkerd tells the client's proxy of endpoints that are gone, so a part of its requests fails.",
        "Restart the destination controller. If the endpoints are in a target cluster, rotate the credentials of the Link, which does that too. During a rollout this lasts for a moment only.";
    NothingDiscovered in Discovery:
        "No endpoint is left: the Service has no ready Pod in any of its clusters, or the controller or Linkerd does not hear of them. With `--target`, `diagnose` tells which.",
        "Look at the Pods of the Service in the target cluster.";
    GatewayIdentityWrong in Network:
        "The Link names another TLS identity than the gateway of the target cluster has, so proxies refuse its certificate.",
        "Link the cluster again, which reads the identity of its gateway.";
    GatewayPortWrong in Network:
        "The gateway does not answer probes, and the Link names another port than its Service has. Or the Link names the port for probes for requests too, and no port is for both.",
        "Link the cluster again with `--gateway-port 0`, which reads the port of its gateway. If a load balancer or a NAT maps the port, correct that instead.";
    GatewayAddressUnknown in Network:
        "The Link names no address of the gateway that can be used: it is empty, or its host name cannot be resolved.",
        "Correct the address, or the name server.";
    GatewayAddressRefused in Network:
        "All addresses of the gateway are refused, because they mean this cluster itself or are outside of the Link's networks.",
        "Correct the addresses of the gateway, or the networks of the Link.";
    GatewayDown in Network:
        "None of the gateway's Pods is ready.",
        "Repair the gateway's Pods.";
    ProbePortClosed in Network:
        "The gateway does not answer probes, although its Pods are ready: something between the clusters drops them.",
        "Open the ports of the gateway for the source cluster in the firewall and the load balancer.";
    ProbesFail in Network:
        "The gateway does not answer probes although its Pods are ready. The evidence says how they fail. If all gateways are silent, the reason is more likely in this cluster.",
        "Look at what the evidence names, then at the controller's Pod and the log of its proxy, and at the NetworkPolicies and the firewall.";
    GatewayUnreachable in Network:
        "The gateway of the target cluster does not answer probes: it is down, or a firewall drops them. With `--target`, `diagnose` tells which.",
        "Check the gateway's Pods, then its load balancer and the firewall.";
    GatewayDenies in Network:
        "The policy of the gateway does not let the client's identity connect.",
        "Permit the identity in the evidence, if it may call the Services of this cluster. The output of `install`, with your values, has the policy of the gateway: apply it again if it is gone.";
    NetworksOverlap in Network:
        "Pods of the target cluster have addresses of this cluster's own Pod networks, so requests to them never leave it.",
        "Export the Service through the gateway, or give one of the clusters another network. Clients that asked before have to pause for 10 s, or to restart.";
    MissingInTarget in Target:
        "The target cluster has no Service of this name.",
        "Create it there, or correct its name.";
    NoReadyPods in Target:
        "The Service has no ready Pod in the target cluster.",
        "Repair its Pods, or its selector.";
    PortHasNoContainer in Target:
        "The Service has ready Pods, and none of their containers declares the port to which the port of the Service leads (`targetPort`). Linkerd tells of no endpoint for such a port.",
        "Give the container a port of this name, or correct `targetPort` of the Service.";
    ServerDenies in Target:
        "The policy of the Service's Pods does not let the caller connect. Through the gateway, the caller is the gateway; from Pod to Pod it is the client.",
        "Permit the identity in the evidence, if it may call this Service.";
    TrustRootsDiffer in Target:
        "The clusters have no trust anchor in common, so no proxy accepts a certificate of the other cluster.",
        "Give both clusters one bundle with both trust anchors.";
    PortRefusalKept in Answers:
        "The Service declares the port now, and did not when the client began to ask. Linkerd since edge-26.7.1 does not revise its refusal while a client goes on to ask.",
        "Restart the client, or let it pause for 10 s.";
    GatewayPortClosed in Answers:
        "The gateway answers probes, and the proxy of the Pod that calls cannot connect to its port for requests.",
        "Open this port for the source cluster in the firewall and the load balancer.";
    ConnectionFailed in Answers:
        "The proxy of the Pod that calls cannot connect to any endpoint of the Service. A firewall drops its packets, or its certificate is refused; with `--target`, `diagnose` tells more.",
        "Look at the log of the proxy, which names the endpoint and the error.";
    RequestsFail in Answers:
        "Requests or connections of the Pod that calls fail, and nothing above explains it. The evidence has the statuses of the answers and the errors of the proxy.",
        "Look at the log of the proxy, then at the logs of the Service's Pods in the target cluster and their proxies.";
}
