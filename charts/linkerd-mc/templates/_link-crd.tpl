{{- /* Generated: run `just chart`. */}}

{{- define "linkerd-mc.link-spec" -}}
spec:
  type: object
  properties:
    targetClusterName:
      description: Name of the target cluster, and the suffix of its mirrors.
      type: string
    targetClusterDomain:
      description: DNS domain of the target cluster.
      type: string
    targetClusterLinkerdNamespace:
      description: Namespace of the target cluster's Linkerd control plane.
      type: string
    clusterCredentialsSecret:
      description: Name of the Secret with the target cluster's kubeconfig, in the namespace of the Link.
      type: string
    gatewayAddress:
      description: IP addresses and host names of the target cluster's gateway, joined by commas.
      type: string
    gatewayPort:
      description: Port of the target cluster's gateway, a decimal number.
      type: string
    gatewayIdentity:
      description: TLS identity of the target cluster's gateway.
      type: string
    probeSpec:
      description: How the gateway is probed.
      type: object
      properties:
        path:
          description: Path of the probe. Without it, the gateway is not probed.
          type: string
        port:
          description: Port of the probe, a decimal number.
          type: string
        period:
          description: Interval of probes.
          type: string
{{- if .periodFormat }}
          format: duration
{{- end }}
        timeout:
          description: Timeout of a probe.
          type: string
          format: duration
          default: 30s
        failureThreshold:
          description: Number of consecutive failures after which the gateway counts as dead, a decimal number.
          type: string
          default: "3"
    selector:
      description: Services that are mirrored through the gateway. Without it, none.
      {{- include "linkerd-mc.label-selector" (dict) | nindent 6 }}
    remoteDiscoverySelector:
      description: Services that are mirrored with remote discovery, in a flat network. Without it, none.
      {{- include "linkerd-mc.label-selector" (dict) | nindent 6 }}
{{- if .federated }}
    federatedServiceSelector:
      description: Services that are members of federated Services. Without it, none.
      {{- include "linkerd-mc.label-selector" (dict) | nindent 6 }}
{{- end }}
{{- if .excluded }}
    excludedAnnotations:
      description: Annotations that are not copied to mirrors, as a key or a prefix that ends in "/*".
      type: array
      items:
        type: string
    excludedLabels:
      description: Labels that are not copied to mirrors, as a key or a prefix that ends in "/*".
      type: array
      items:
        type: string
{{- end }}
{{- end }}

{{- define "linkerd-mc.link-status" -}}
status:
  type: object
  # Later versions of Linkerd write more into it (linkerd2#15398: trustRoots), which we must not drop.
  x-kubernetes-preserve-unknown-fields: true
  # kstatus takes a Link without any status for one that is done.
  default:
    observedGeneration: -1
  properties:
    mirrorServices:
      description: Mirrors of this Link. Beyond a limit only those that are not mirrored.
      type: array
      items:
        {{- include "linkerd-mc.service-status" (dict) | nindent 8 }}
    federatedServices:
      description: Memberships in federated Services. Beyond a limit only those that are not joined.
      type: array
      items:
        {{- include "linkerd-mc.service-status" (dict) | nindent 8 }}
    conditions:
      description: State of the Link as a whole; types are Ready, Connected, CredentialsValid and GatewayAlive, and while there is a problem Stalled, CredentialsExpiring, InsecureTLS, GatewayAddressRefused, LimitExceeded and ClusterIPsExhausted.
      type: array
      x-kubernetes-list-type: map
      x-kubernetes-list-map-keys: [type]
      items:
        type: object
        required: [lastTransitionTime, message, reason, status, type]
        properties:
          lastTransitionTime:
            type: string
            format: date-time
          message:
            type: string
            maxLength: 32768
          observedGeneration:
            type: integer
            format: int64
            minimum: 0
          {{- include "linkerd-mc.condition-words" (dict) | nindent 10 }}
    gateway:
      description: State of the target cluster's gateway, as seen from this cluster.
      type: object
      properties:
        alive:
          description: Whether probes succeed. Absent while unknown.
          type: boolean
        since:
          description: When "alive" took its value.
          type: string
          format: date-time
        latencyMs:
          description: Latency of a probe in milliseconds. Rarely updated.
          type: integer
          format: int64
          minimum: 0
        addresses:
          description: Addresses that the gateway resolves to.
          type: array
          items:
            type: string
    mirrored:
      description: Number of mirrored Services.
      type: integer
      format: int64
      minimum: 0
    federated:
      description: Number of members of federated Services.
      type: integer
      format: int64
      minimum: 0
    unhealthy:
      description: Number of Services that should be mirrored or federated and are not.
      type: integer
      format: int64
      minimum: 0
    targetClusterName:
      description: Target cluster whose Services were listed last. The mirrors in this cluster belong to it until the cluster in spec.targetClusterName has been listed.
      type: string
    credentialsFingerprint:
      description: Fingerprint of the credentials in use, the start of the SHA-256 of the kubeconfig in the Secret.
      type: string
    observedGeneration:
      description: Generation of the Link that this status is for; -1 if no controller has seen the Link.
      type: integer
      format: int64
      minimum: -1
{{- end }}

{{- define "linkerd-mc.label-selector" -}}
type: object
x-kubernetes-map-type: atomic
properties:
  matchLabels:
    type: object
    additionalProperties:
      type: string
  matchExpressions:
    type: array
    items:
      type: object
      required: [key, operator]
      properties:
        key:
          type: string
        operator:
          type: string
          enum: [In, NotIn, Exists, DoesNotExist]
        values:
          type: array
          items:
            type: string
{{- end }}

{{- define "linkerd-mc.service-status" -}}
type: object
required: [controllerName, remoteRef]
properties:
  controllerName:
    type: string
    minLength: 1
    maxLength: 253
    pattern: ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$
  remoteRef:
    description: The Service in the target cluster.
    {{- include "linkerd-mc.object-ref" (dict) | nindent 4 }}
  conditions:
    type: array
    items:
      type: object
      required: [lastTransitionTime, message, reason, status, type]
      properties:
        lastTransitionTime:
          type: string
          format: date-time
        message:
          type: string
        {{- include "linkerd-mc.condition-words" (dict) | nindent 8 }}
        localRef:
          description: The Service in this cluster.
          {{- include "linkerd-mc.object-ref" (dict) | nindent 10 }}
{{- end }}

{{- define "linkerd-mc.condition-words" -}}
reason:
  type: string
  minLength: 1
  maxLength: 1024
  pattern: ^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$
status:
  type: string
  enum: ["True", "False", "Unknown"]
type:
  type: string
  maxLength: 316
  pattern: ^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$
{{- end }}

{{- define "linkerd-mc.object-ref" -}}
type: object
required: [name, namespace]
properties:
  group:
    type: string
    maxLength: 253
    default: core
    pattern: ^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$
  kind:
    type: string
    minLength: 1
    maxLength: 63
    default: Service
    pattern: ^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$
  name:
    type: string
    minLength: 1
    maxLength: 253
  namespace:
    type: string
    minLength: 1
    maxLength: 63
    pattern: ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$
{{- end }}
