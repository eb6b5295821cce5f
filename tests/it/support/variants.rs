//! Variants of `install`. Those of the Helm chart, in `tests/packaging`, must render the same.

/// Variants of `install` whose objects must all be valid.
pub(crate) const VARIANTS: [&[&str]; 9] = [
    &["-o", "json"],
    &["--set", "apiGateway.apiServerAddress=10.96.0.1"],
    &["--gateway=false", "--service-mirror-credentials=false"],
    &[
        "--gateway-service-type=NodePort",
        "--gateway-port=4200",
        "--set",
        "gateway.nodePort=30143",
    ],
    &[
        "--set",
        "gateway.serviceExternalTrafficPolicy=Local",
        "--gateway-healthcheck-nodeport=30000",
    ],
    &[
        "--ha",
        "--set",
        "enableNamespaceCreation=true,controller.enableHeadlessServices=true",
    ],
    &[
        "--set",
        "controller.networkPolicy.enabled=true,controller.networkPolicy.egressNetworks={192.0.2.0/24}",
    ],
    &[
        "--set",
        "remoteMirrorServiceAccountName={one,two},federation.enabled=false,imagePullSecrets[0].name=s",
    ],
    &[
        "--set",
        "gateway.tolerations[0].operator=Exists,gateway.nodeSelector.a=b,gateway.terminationGracePeriodSeconds=5",
        "--set",
        "controller.resources.limits.cpu=1,controller.resources.requests.memory=64Mi,controller.additionalEnv[0].name=A",
        "--set-string",
        "commonLabels.team=on,podLabels.yes=no,podAnnotations.note=1,controller.nodeSelector.disk=1",
        "--set",
        "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=a",
        "--set",
        "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
    ],
];
