{{- /*
Computes the input of the templates, like src/manifests/install.rs. The other templates are generated from those of
`linkerd-mc install`. A test compares the objects that both render.
*/}}

{{- /*
The values in one form: without obsolete keys, and with lists in place of text with commas. Also warnings about
obsolete keys. As JSON.
*/}}
{{- define "linkerd-mc.values" -}}
{{- $values := toJson .Values | fromJson }}
{{- $warnings := list }}
{{- range include "linkerd-mc.obsolete" . | fromYamlArray }}
  {{- $value := include "linkerd-mc.get" (list $values .key) | fromJson | dig "value" nil }}
  {{- include "linkerd-mc.set" (list $values .key nil) }}
  {{- if not (include "linkerd-mc.isEmpty" $value) }}
    {{- if .why }}
      {{- $warnings = append $warnings (printf "%s has no effect: %s" .key .why) }}
    {{- else if eq (include "linkerd-mc.get" (list $values .to)) (dict "value" .default | toJson) }}
      {{- include "linkerd-mc.set" (list $values .to $value) }}
      {{- $warnings = append $warnings (printf "%s is deprecated: use %s" .key .to) }}
    {{- else }}
      {{- $warnings = append $warnings (printf "%s has no effect: %s is also set" .key .to) }}
    {{- end }}
  {{- end }}
{{- end }}
{{- range include "linkerd-mc.lists" . | fromYamlArray }}
  {{- $value := include "linkerd-mc.get" (list $values .) | fromJson | dig "value" nil }}
  {{- if kindIs "string" $value }}
    {{- $value = splitList "," $value }}
  {{- end }}
  {{- if not (kindIs "invalid" $value) }}
    {{- $items := list }}
    {{- range $value }}
      {{- if trim . }}
        {{- $items = append $items (trim .) }}
      {{- end }}
    {{- end }}
    {{- include "linkerd-mc.set" (list $values . $items) }}
  {{- end }}
{{- end }}
{{- range include "linkerd-mc.maps" . | fromYamlArray }}
  {{- $entries := dict }}
  {{- range $key, $value := include "linkerd-mc.get" (list $values .) | fromJson | dig "value" nil }}
    {{- if not (kindIs "invalid" $value) }}
      {{- $_ := set $entries $key $value }}
    {{- end }}
  {{- end }}
  {{- include "linkerd-mc.set" (list $values . $entries) }}
{{- end }}
{{- $seconds := $values.gateway.terminationGracePeriodSeconds }}
{{- if kindIs "string" $seconds }}
  {{- $_ := set $values.gateway "terminationGracePeriodSeconds" (atoi (default "0" $seconds)) }}
{{- end }}
{{- range $group := list $values.gateway $values.controller }}
  {{- range $key := list "UID" "GID" }}
    {{- $id := index $group $key }}
    {{- if kindIs "string" $id }}
      {{- $_ := set $group $key (atoi (default "0" $id)) }}
    {{- end }}
  {{- end }}
{{- end }}
{{- toJson (dict "values" $values "warnings" $warnings) }}
{{- end }}

{{- /* The value at a path, as JSON: {"value": …}. */}}
{{- define "linkerd-mc.get" -}}
{{- $at := index . 0 }}
{{- range splitList "." (index . 1) }}
  {{- if kindIs "map" $at }}
    {{- $at = index $at . }}
  {{- else }}
    {{- $at = dict }}
  {{- end }}
{{- end }}
{{- toJson (dict "value" $at) }}
{{- end }}

{{- /* Sets the value at a path, or removes it if it is nil. */}}
{{- define "linkerd-mc.set" -}}
{{- $at := index . 0 }}
{{- $path := splitList "." (index . 1) }}
{{- range initial $path }}
  {{- if kindIs "map" $at }}
    {{- $at = index $at . }}
  {{- end }}
{{- end }}
{{- if kindIs "map" $at }}
  {{- if kindIs "invalid" (index . 2) }}
    {{- $_ := unset $at (last $path) }}
  {{- else }}
    {{- $_ := set $at (last $path) (index . 2) }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* "true" for null, an empty text or list, and a map of these. */}}
{{- define "linkerd-mc.isEmpty" -}}
{{- $withoutKeys := regexReplaceAll "\"[^\"]*\":" (toJson .) "" }}
{{- if regexMatch "^([{},]|\\[\\]|null|\"\")*$" $withoutKeys }}true{{ end }}
{{- end }}

{{- /* The input of the templates, as JSON. */}}
{{- define "linkerd-mc.context" -}}
{{- $values := (include "linkerd-mc.values" . | fromJson).values }}
{{- $namespace := .Release.Namespace }}
{{- $name := "linkerd-multicluster-controller" }}
{{- $gateway := $values.gateway }}
{{- $controller := $values.controller }}
{{- $accountsNamespace := $values.remoteMirrorServiceAccountNamespace | default $namespace }}
{{- $ctx := dict
  "namespace" $namespace
  "values" $values
  "createdBy" (print "linkerd-mc/helm " .Chart.AppVersion)
  "version" .Chart.AppVersion
  "accounts" $values.remoteMirrorServiceAccountName
  "accountsNamespace" $accountsNamespace
  "accountsHaveOwnNamespace" (ne $accountsNamespace $namespace)
  "fullAccess" true
  "apiServerAddressType" (contains ":" $values.apiGateway.apiServerAddress | ternary "IPv6" "IPv4")
  "controllerAffinity" (include "linkerd-mc.affinity" (list $values $name) | fromJson)
  "pullPolicy" ($controller.image.pullPolicy | default $values.imagePullPolicy)
  "admissionPolicyDisabled" (not $controller.admissionPolicy)
}}

{{- /* Helm deletes what is no longer in a release, and clusters that use a stored token would lose access. */}}
{{- $stored := list }}
{{- range $values.remoteMirrorServiceAccountName }}
  {{- if or $values.remoteMirrorServiceAccountToken (lookup "v1" "Secret" $accountsNamespace (print . "-token")) }}
    {{- $stored = append $stored . }}
  {{- end }}
{{- end }}
{{- $_ := set $ctx "storedTokens" $stored }}

{{- /* What the gateway forwards to. */}}
{{- $isLimited := and $gateway.enabled (ne $gateway.forward "all") }}
{{- $hasEnv := hasKey $gateway.deploymentAnnotations "config.linkerd.io/proxy-additional-env" }}
{{- if and $isLimited $hasEnv }}
  {{- printf "with gateway.forward=%s, the controller writes the annotation config.linkerd.io/proxy-additional-env: remove it from gateway.deploymentAnnotations" $gateway.forward | fail }}
{{- end }}
{{- $_ := set $ctx "gatewayLimit" (dict
  "isKept" $isLimited
  "isPermitting" (and $isLimited (eq $gateway.forward "permitted"))
  "isOpen" (ne $gateway.forward "permitted")
) }}

{{- /* The gateways: that for traffic, and that for the API server, which is otherwise like it. */}}
{{- $gateways := list }}
{{- if $gateway.enabled }}
  {{- $env := ternary "" "[]" (or $isLimited $hasEnv) }}
  {{- $gateways = append $gateways (merge (dict "component" "gateway" "additionalEnv" $env) $gateway) }}
{{- end }}
{{- $api := $values.apiGateway }}
{{- if $api.apiServerAddress }}
  {{- $only := printf "kubernetes-api.%s.svc.%s." $namespace $values.clusterDomain }}
  {{- $env := list (dict "name" "LINKERD2_PROXY_INBOUND_GATEWAY_SUFFIXES" "value" $only) | toRawJson }}
  {{- $own := dict
    "component" "api-gateway"
    "additionalEnv" $env
    "name" "linkerd-api-gateway"
    "probe" (omit $gateway.probe "nodePort")
    "deploymentAnnotations" (omit $gateway.deploymentAnnotations "config.linkerd.io/proxy-additional-env") }}
  {{- $others := omit $gateway "healthCheckNodePort" "nodePort" "probe" "serviceAnnotations" "deploymentAnnotations" }}
  {{- $gateways = append $gateways (mergeOverwrite (deepCopy $others) (deepCopy $api) $own) }}
{{- end }}
{{- range $gateways }}
  {{- $_ := set . "identity" (include "linkerd-mc.identity" (list $values .name $namespace)) }}
  {{- $_ := set . "affinity" (include "linkerd-mc.affinity" (list $values .name) | fromJson) }}
  {{- /* The API server rejects node ports for Services that are not of type NodePort or LoadBalancer. */}}
  {{- $nodePorts := dict "gateway" nil "probe" nil "healthCheck" nil }}
  {{- if has .serviceType (list "NodePort" "LoadBalancer") }}
    {{- $nodePorts = dict
      "gateway" .nodePort
      "probe" .probe.nodePort
      "healthCheck" .healthCheckNodePort }}
  {{- end }}
  {{- $_ := set . "nodePorts" $nodePorts }}
{{- end }}
{{- $_ := set $ctx "gateways" $gateways }}
{{- $_ := set $ctx "apiClients" ($api.clients | default (list
  (include "linkerd-mc.identity" (list $values $name $namespace))
  (include "linkerd-mc.identity" (list $values "linkerd-destination" $values.linkerdNamespace)))) }}

{{- $_ := set $ctx "hasAdmissionPolicy" $controller.admissionPolicy }}

{{- if kindIs "invalid" $values.protectedNamespaces }}
  {{- $kubernetes := list "kube-system" "kube-public" "kube-node-lease" }}
  {{- $_ := set $values "protectedNamespaces" (append $kubernetes $values.linkerdNamespace) }}
{{- end }}
{{- $installations := list $namespace }}
{{- if $controller.takeOverFrom }}
  {{- $installations = append $installations $controller.takeOverFrom }}
{{- end }}
{{- $accounts := list }}
{{- range list $namespace $accountsNamespace | uniq }}
  {{- $accounts = append $accounts (print "system:serviceaccounts:" .) }}
{{- end }}
{{- $account := printf "system:serviceaccount:%s:%s" $namespace $name }}
{{- $_ := set $ctx "confinement" (dict
  "isTheController" (print "request.userInfo.username == " (toRawJson $account))
  "home" (toRawJson $namespace)
  "protectedNamespaces" (append $values.protectedNamespaces $namespace | toRawJson)
  "installations" (toRawJson $installations)
  "createsNamespaces" (toString $values.enableNamespaceCreation)
  "accounts" (toRawJson $accounts)
  "gateway" (ternary $gateway.name "" $isLimited | toRawJson)
) }}

{{- $_ := set $ctx "controllerResources" (include "linkerd-mc.resources" $controller | fromJson) }}
{{- $_ := set $ctx "controllerArgs" (include "linkerd-mc.args" $ctx | fromYamlArray) }}
{{- toJson $ctx }}
{{- end }}

{{- /* The TLS identity of a ServiceAccount. */}}
{{- define "linkerd-mc.identity" -}}
{{- $values := index . 0 }}
{{- printf "%s.%s.serviceaccount.identity.%s.%s" (index . 1) (index . 2) $values.linkerdNamespace $values.identityTrustDomain }}
{{- end }}

{{- /* Pods with a label `app` prefer different nodes, then different zones. */}}
{{- define "linkerd-mc.affinity" -}}
{{- $values := index . 0 }}
{{- $app := index . 1 }}
{{- $affinity := dict }}
{{- if not (kindIs "invalid" $values.nodeAffinity) }}
  {{- $_ := set $affinity "nodeAffinity" $values.nodeAffinity }}
{{- end }}
{{- if $values.enablePodAntiAffinity }}
  {{- $terms := list }}
  {{- range $topology, $weight := dict "kubernetes.io/hostname" 100 "topology.kubernetes.io/zone" 50 }}
    {{- $labels := dict "key" "app" "operator" "In" "values" (list $app) }}
    {{- $selector := dict "matchExpressions" (list $labels) }}
    {{- $term := dict "labelSelector" $selector "topologyKey" $topology }}
    {{- $terms = append $terms (dict "weight" $weight "podAffinityTerm" $term) }}
  {{- end }}
  {{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" $terms) }}
{{- end }}
{{- toJson $affinity }}
{{- end }}

{{- /* The controller's resources. Unless set, its memory limit is computed from `maxMiB`. */}}
{{- define "linkerd-mc.resources" -}}
{{- $resources := dict }}
{{- range $kind, $quantities := .resources }}
  {{- $texts := dict }}
  {{- range $name, $quantity := $quantities }}
    {{- $_ := set $texts $name (kindIs "string" $quantity | ternary $quantity (toJson $quantity)) }}
  {{- end }}
  {{- if $texts }}
    {{- $_ := set $resources $kind $texts }}
  {{- end }}
{{- end }}
{{- $limits := $resources.limits | default dict }}
{{- $requests := $resources.requests | default dict }}
{{- if not (or (hasKey $limits "memory") (hasKey $requests "memory")) }}
  {{- $most := printf "%dMi" (add 128 (mul 3 (int64 .maxMiB))) }}
  {{- $_ := set $resources "limits" (set $limits "memory" $most) }}
  {{- $_ := set $resources "requests" (set $requests "memory" "64Mi") }}
{{- end }}
{{- toJson $resources }}
{{- end }}

{{- /* The controller's arguments, as YAML. */}}
{{- define "linkerd-mc.args" -}}
{{- $controller := .values.controller }}
{{- $federation := .values.federation }}
- run-controller
- {{ print "--namespace=" .namespace | toJson }}
- --admin-addr=0.0.0.0:{{ toJson $controller.metricsPort }}
- --max-in-flight-writes={{ toJson $controller.maxInFlightWrites }}
- --max-services-per-link={{ toJson $controller.maxServicesPerLink }}
- --max-metadata-kib-per-service={{ toJson $controller.maxMetadataKiBPerService }}
- --max-mib-per-link={{ toJson $controller.maxMiBPerLink }}
- --max-mib={{ toJson $controller.maxMiB }}
- --max-writes-per-link={{ toJson $controller.maxWritesPerLink }}
- --log-level={{ $controller.logLevel }}
- --log-format={{ $controller.logFormat }}
- {{ print "--trust-domain=" .values.identityTrustDomain | toJson }}
- {{ print "--protected-namespaces=" (join "," .values.protectedNamespaces) | toJson }}
{{- if .values.enableNamespaceCreation }}
- --enable-namespace-creation
- --max-namespaces-per-link={{ toJson $controller.maxNamespacesPerLink }}
{{- end }}
{{- if $controller.enableHeadlessServices }}
- --enable-headless-services
{{- end }}
{{- if $controller.takeOverFrom }}
- {{ print "--take-over-from=" $controller.takeOverFrom | toJson }}
{{- end }}
{{- if .gatewayLimit.isKept }}
- {{ print "--export-gateway=" .values.gateway.name | toJson }}
- {{ print "--cluster-domain=" .values.clusterDomain | toJson }}
- {{ print "--identity-namespace=" .values.linkerdNamespace | toJson }}
{{- end }}
{{- if .gatewayLimit.isPermitting }}
- --permit-exports
{{- end }}
{{- if $federation.enabled }}
- {{ print "--federated-service-selector=" $federation.selector | toJson }}
{{- if $federation.excludedLabels }}
- {{ print "--excluded-labels=" (join "," $federation.excludedLabels) | toJson }}
{{- end }}
{{- if $federation.excludedAnnotations }}
- {{ print "--excluded-annotations=" (join "," $federation.excludedAnnotations) | toJson }}
{{- end }}
{{- else }}
- --no-local-federation
{{- end }}
- {{ print "--join-delay=" $federation.joinDelay | toJson }}
{{- if $federation.routes }}
- --enable-routes
- {{ print "--hold-down=" $federation.holdDown | toJson }}
{{- end }}
- --leader-elect
{{- end }}

{{- /* Merges two maps of text. The first overrides the second. As YAML. */}}
{{- define "linkerd-mc.entries" -}}
{{- $entries := dict }}
{{- range $pairs := list (index . 1) (index . 0) }}
  {{- range $key, $value := $pairs }}
    {{- $_ := set $entries $key (kindIs "string" $value | ternary $value (toJson $value)) }}
  {{- end }}
{{- end }}
{{- toYaml $entries }}
{{- end }}
