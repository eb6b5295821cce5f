{{- /* Generated: run `just chart`. */}}

{{- /* Keys of Linkerd's chart: their replacement and its default, or why they have no effect. */}}
{{- define "linkerd-mc.obsolete" }}
- {"default":1,"key":"controllerDefaults.replicas","to":"controller.replicas"}
- {"default":"info","key":"controllerDefaults.logLevel","to":"controller.logLevel"}
- {"default":"plain","key":"controllerDefaults.logFormat","to":"controller.logFormat"}
- {"default":false,"key":"controllerDefaults.enableHeadlessServices","to":"controller.enableHeadlessServices"}
- {"default":2103,"key":"controllerDefaults.UID","to":"controller.UID"}
- {"default":2103,"key":"controllerDefaults.GID","to":"controller.GID"}
- {"default":{},"key":"controllerDefaults.resources","to":"controller.resources"}
- {"default":{},"key":"controllerDefaults.nodeSelector","to":"controller.nodeSelector"}
- {"default":[],"key":"controllerDefaults.tolerations","to":"controller.tolerations"}
- {"default":"","key":"controllerDefaults.image.pullPolicy","to":"controller.image.pullPolicy"}
- {"key":"controllerDefaults.image","why":"use controller.image"}
- {"key":"controllerDefaults.gateway","why":"the controller creates the probe Service of each Link"}
- {"key":"controllerDefaults.retryLimit","why":"failures are retried until they succeed"}
- {"key":"controllerDefaults.enablePprof","why":"profiling is not supported; see /metrics"}
- {"key":"controllerDefaults.enablePodAntiAffinity","why":"enablePodAntiAffinity applies to all pods"}
- {"key":"controllerDefaults.nodeAffinity","why":"nodeAffinity applies to all pods"}
- {"key":"controllerDefaults","why":"see controller"}
- {"key":"controllers","why":"one controller serves all Links: use controller.resources, controller.logLevel and controller.enableHeadlessServices, or link with --enable-headless-services"}
- {"default":"mirror.linkerd.io/federated=member","key":"localServiceMirror.federatedServiceSelector","to":"federation.selector"}
- {"default":[],"key":"localServiceMirror.excludedLabels","to":"federation.excludedLabels"}
- {"default":[],"key":"localServiceMirror.excludedAnnotations","to":"federation.excludedAnnotations"}
- {"key":"localServiceMirror","why":"the controller handles local members too; see controller and federation"}
- {"default":[],"key":"serviceMirrorAdditionalEnv","to":"controller.additionalEnv"}
- {"key":"serviceMirrorExperimentalEnv","why":"use controller.additionalEnv"}
- {"default":{},"key":"nodeSelector","to":"controller.nodeSelector"}
- {"default":[],"key":"tolerations","to":"controller.tolerations"}
- {"key":"linkerdVersion","why":"use controller.image.version"}
- {"key":"cliVersion","why":"objects have the version of the CLI that printed them"}
- {"key":"proxyOutboundPort","why":"it is not used"}
- {"key":"enablePSP","why":"Kubernetes removed PodSecurityPolicies; the Namespace has a pod security level"}
- {"key":"namespaceMetadata","why":"no Job labels the Namespace: install prints it with its labels, and with Helm you label it"}
- {"key":"createNamespaceMetadataJob","why":"no Job labels the Namespace: install prints it with its labels, and with Helm you label it"}
{{- end }}

{{- /* Lists that may be given as text with commas. */}}
{{- define "linkerd-mc.lists" }}
- apiGateway.clients
- controller.networkPolicy.metricsNamespaces
- controller.networkPolicy.egressNetworks
- federation.excludedLabels
- federation.excludedAnnotations
- remoteMirrorServiceAccountName
- protectedNamespaces
{{- end }}

{{- /* Maps of text. */}}
{{- define "linkerd-mc.maps" }}
- gateway.serviceAnnotations
- gateway.deploymentAnnotations
- gateway.nodeSelector
- apiGateway.serviceAnnotations
- controller.nodeSelector
- commonLabels
- podLabels
- podAnnotations
{{- end }}
