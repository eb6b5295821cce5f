//! Values for the chart: valid ones, as flags of `install`, and invalid ones.

/// Values besides the variants of `install`: those of its unit tests, and those that Helm could parse differently.
pub(super) const VALUES: [&[&str]; 19] = [
    &[],
    &["--ha"],
    &["--set", "apiGateway.apiServerAddress=fd00:10:96::1"],
    &[
        "--set",
        "apiGateway.apiServerAddress=10.96.0.1,apiGateway.serviceType=NodePort,apiGateway.nodePort=30144,gateway.probe.nodePort=30191",
        "--set",
        "apiGateway.clients={*.west.example,a.b},gateway.forward=exported,gateway.serviceAnnotations.a=b,clusterDomain=c.d",
        "--set",
        "gateway.deploymentAnnotations.a=b,apiGateway.loadBalancerSourceRanges={192.0.2.0/24},gateway.serviceExternalTrafficPolicy=Local",
    ],
    &[
        "--set",
        "gateway.serviceType=ClusterIP,gateway.nodePort=30143,gateway.healthCheckNodePort=30000",
    ],
    &["--set", "controller.networkPolicy.enabled=true"],
    &[
        "--set",
        "controller.networkPolicy.enabled=true,linkerdNamespace=l5d,controller.metricsPort=9000",
        "--set",
        "controller.networkPolicy.metricsNamespaces=,controller.networkPolicy.egressPorts={443}",
        "--set",
        "controller.networkPolicy.egressNetworks={192.0.2.0/24,2001:db8::/32}",
    ],
    &[
        "--set",
        "remoteMirrorServiceAccountNamespace=access,remoteMirrorServiceAccountName=peers",
    ],
    &[
        "--set",
        "remoteMirrorServiceAccountName=one\\, two\\,,federation.excludedLabels={a,b/*},federation.excludedAnnotations=c",
    ],
    &[
        "--set-string",
        "gateway.terminationGracePeriodSeconds=60,podAnnotations.note=a: b <c>",
        "--set-string",
        "gateway.deploymentAnnotations.linkerd\\.io/inject=ingress,podAnnotations.linkerd\\.io/inject=",
    ],
    // Helm must not write them as 1e+09.
    &[
        "--set",
        "gateway.UID=1000650000,gateway.GID=1000650000,controller.UID=1000650000,controller.GID=1000650000",
        "--set",
        "controller.maxServicesPerLink=10000000,controller.maxMiB=65535,gateway.probe.seconds=1000000",
    ],
    &[
        "--set",
        "protectedNamespaces={a,b},linkerdNamespace=l5d,controller.takeOverFrom=old,enableNamespaceCreation=true",
    ],
    &["--set", "protectedNamespaces="],
    // A cluster chooses the users; text is a number too.
    &[
        "--set",
        "gateway.UID=,gateway.GID=,controller.UID=,apiGateway.apiServerAddress=10.96.0.1,podMonitor.enabled=true",
        "--set-string",
        "controller.GID=1000650000",
    ],
    &[
        "--set",
        "priorityClassName=mesh,controller.topologySpreadConstraints[0].maxSkew=1,podMonitor.scrapeInterval=1m",
        "--set",
        "controller.topologySpreadConstraints[0].topologyKey=a,gateway.topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule",
        "--set",
        "gateway.topologySpreadConstraints[0].maxSkew=2,gateway.topologySpreadConstraints[0].topologyKey=b",
        "--set",
        "controller.topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
    ],
    &[
        "--set",
        "protectedNamespaces=null,federation.routes=true,federation.enabled=false",
    ],
    &[
        "--set",
        "controller.admissionPolicy=false,controller.image.pullPolicy=Always,controller.image.name=registry.example.com/mc",
    ],
    &[
        "--set",
        "federation.selector=a in (b\\,c)\\,!d,identityTrustDomain=x.example,imagePullPolicy=Always,cniEnabled=true",
    ],
    &[
        "--set",
        "controllerDefaults.logLevel=debug,controller.logLevel=warn,controllerDefaults.resources.limits.cpu=1",
    ],
];

/// Values that the schema refuses, and a part of the message.
pub(super) const BAD: [(&str, &str); 29] = [
    (
        "remoteMirrorServiceAccountName=west\\, cluster-admin",
        "remoteMirrorServiceAccountName",
    ),
    (
        "remoteMirrorServiceAccountName={west,edit}",
        "remoteMirrorServiceAccountName",
    ),
    (
        "remoteMirrorServiceAccountNamespace=A",
        "remoteMirrorServiceAccountNamespace",
    ),
    ("gateway.prot=1", "prot"),
    ("whatever=1", "whatever"),
    ("gateway=off", "gateway"),
    ("gateway.enabled=maybe", "enabled"),
    ("gateway.replicas=-1", "replicas"),
    ("gateway.probe.seconds=0", "seconds"),
    ("gateway.probe.path=ready", "path"),
    ("gateway.port=65536", "port"),
    ("gateway.UID=0", "UID"),
    ("controller.GID=root", "GID"),
    ("gateway.nodePort=a", "nodePort"),
    ("gateway.name=GW", "name"),
    ("gateway.serviceType=ExternalName", "serviceType"),
    (
        "gateway.terminationGracePeriodSeconds=soon",
        "terminationGracePeriodSeconds",
    ),
    (
        "gateway.loadBalancerSourceRanges=10.0.0.0/8",
        "loadBalancerSourceRanges",
    ),
    ("gateway.nodeSelector.a=true", "nodeSelector"),
    ("controller.maxInFlightWrites=1001", "maxInFlightWrites"),
    ("controller.image.version=2026", "version"),
    ("controller.networkPolicy.egressPorts={0}", "egressPorts"),
    ("controller.resources.cpu.limit=1", "resources"),
    ("controllerDefaults.logLevel=loud", "logLevel"),
    ("federation.holdDown=30", "holdDown"),
    ("federation.selector=a>1", "selector"),
    ("protectedNamespaces=a\\,B", "protectedNamespaces"),
    ("commonLabels.component=a", "commonLabels"),
    ("podLabels.team=a b", "podLabels"),
];
