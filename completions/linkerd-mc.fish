# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_linkerd_mc_global_optspecs
    string join \n kubeconfig= context= as= as-group= api-addr= L/linkerd-namespace= verbose= h/help V/version
end

function __fish_linkerd_mc_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_linkerd_mc_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_linkerd_mc_using_subcommand
    set -l cmd (__fish_linkerd_mc_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -s h -l help -d 'Print help'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "install" -d 'Print what a cluster needs to mirror Services from others, and to be mirrored'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "link" -d 'Link two clusters: what `link-gen` prints for the one is applied to the other'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "link-gen" -d 'Print the objects that link another cluster to this one'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "plan" -d 'Show what the controller would create, change and delete for a Link'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "run-controller" -d 'Mirror Services of all linked clusters into this one, until stopped'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "allow" -d 'Print a ServiceAccount with which another cluster can mirror from this one'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "revoke" -d 'Print what `allow` made, for `kubectl delete -f -`'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "unlink" -d 'Print what links a cluster to this one, for `kubectl delete -f -`, or delete it'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "uninstall" -d 'Print what `install` made, for `kubectl delete -f -`'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "completions" -d 'Print a script that makes a shell complete this program\'s flags'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "man" -d 'Print the manual, or write a page for each command'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "check" -d 'Check that linked clusters work, and say what is wrong'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "gateways" -d 'Show whether the gateways of target clusters are alive'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "status" -d 'Show how Links are: connected, gateway, what is mirrored'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "graph" -d 'Show which cluster links to which'
complete -c linkerd-mc -n "__fish_linkerd_mc_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l namespace -d 'Namespace of the extension' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l gateway -d 'Install the gateway that other clusters send traffic to' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l gateway-port -d 'Port of the gateway for mirrored traffic' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l gateway-probe-seconds -d 'Time between two probes of the gateway from other clusters, in seconds' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l gateway-probe-port -d 'Port of the gateway for probes' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l gateway-service-type -d 'Type of the gateway\'s Service' -r -f -a "LoadBalancer\t''
NodePort\t''
ClusterIP\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l gateway-healthcheck-nodeport -d 'Node port of the load balancer\'s health check of the gateway; 0 for none' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l service-mirror-credentials -d 'Make the ServiceAccount that controllers of other clusters use' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l registry -d 'Registry of the controller\'s image, in place of the one in controller.image.name' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l wait -d 'Wait this long for Linkerd to be installed, such as 5m' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -s o -l output -d 'Format of the output' -r -f -a "yaml\t'Documents separated by `---`'
json\t'One JSON object a line'"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -s f -l values -d 'Set values from a YAML file; - is stdin (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l set -d 'Set values, such as gateway.replicas=2,podLabels.team=mesh (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l set-string -d 'Like --set, but all values are text (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l set-file -d 'Like --set, but values are what is in these files (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l ha -d 'More replicas of everything, spread over nodes and zones where there are enough'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l ignore-cluster -d 'Do not ask the cluster for anything'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -l print-values -d 'Print all values with their meanings and defaults, and nothing else'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand install" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l from -d 'Context of the target cluster, whose Services are to be mirrored' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l to -d 'Context of the source cluster, which gets the mirrors' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l cluster-name -d 'Name that the target cluster gets; part of the name of each mirror [default: its context\'s]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l wait -d 'Wait this long until the Links are ready; 0s does not wait' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l namespace -d 'Namespace of the ServiceAccount in the target cluster, and of the Link in the source cluster' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l api-server-address -d 'Address of the target\'s API server as the source cluster reaches it [default: the kubeconfig\'s]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l service-account-name -d 'ServiceAccount in the target cluster that the source cluster uses' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l token-duration -d 'Mint a token that expires, such as after 24h, instead of using the ServiceAccount\'s token Secret' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l gateway -d 'Link through the target\'s gateway; without it only pod-to-pod mirrors and federated Services' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l gateway-name -d 'Name of the gateway\'s Service' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l gateway-namespace -d 'Namespace of the gateway\'s Service' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l gateway-addresses -d 'Addresses of the gateway, comma-separated [default: those of its load balancer]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l gateway-port -d 'Port of the gateway; 0 for that of its Service' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -s l -l selector -d 'Services to mirror through the gateway' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l remote-discovery-selector -d 'Services to mirror pod to pod' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l federated-service-selector -d 'Services that are members of federated Services' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l exclude-annotations -d 'Annotations that mirrors do not get: keys, or prefixes such as example.com/*' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l exclude-labels -d 'Labels that mirrors do not get: keys, or prefixes such as example.com/*' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -s o -l output -d 'Format of the output' -r -f -a "yaml\t'Documents separated by `---`'
json\t'One JSON object a line'"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l mutual -d 'Link the clusters the other way round, too'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l dry-run -d 'Print what would be applied, and apply nothing'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -l enable-headless-services -d 'Mirror headless Services as headless'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l cluster-name -d 'Name that the target cluster gets; part of the name of each mirror' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l namespace -d 'Namespace of the ServiceAccount in the target cluster, and of the Link in the source cluster' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l api-server-address -d 'Address of the target\'s API server as the source cluster reaches it [default: the kubeconfig\'s]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l service-account-name -d 'ServiceAccount in the target cluster that the source cluster uses' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l token-duration -d 'Mint a token that expires, such as after 24h, instead of using the ServiceAccount\'s token Secret' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l gateway -d 'Link through the target\'s gateway; without it only pod-to-pod mirrors and federated Services' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l gateway-name -d 'Name of the gateway\'s Service' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l gateway-namespace -d 'Namespace of the gateway\'s Service' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l gateway-addresses -d 'Addresses of the gateway, comma-separated [default: those of its load balancer]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l gateway-port -d 'Port of the gateway; 0 for that of its Service' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -s l -l selector -d 'Services to mirror through the gateway' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l remote-discovery-selector -d 'Services to mirror pod to pod' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l federated-service-selector -d 'Services that are members of federated Services' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l exclude-annotations -d 'Annotations that mirrors do not get: keys, or prefixes such as example.com/*' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l exclude-labels -d 'Labels that mirrors do not get: keys, or prefixes such as example.com/*' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -s o -l output -d 'Format of the output' -r -f -a "yaml\t'Documents separated by `---`'
json\t'One JSON object a line'"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -l enable-headless-services -d 'Mirror headless Services as headless'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand link-gen" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l link -d 'Name of the Link' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l link-file -d 'A Link that is not applied yet, with its Secrets, as link-gen prints them; - for standard input' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l namespace -d 'Namespace of Links and their credentials' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l federated-service-selector -d 'Which Services of this cluster are members of federated Services' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l excluded-labels -d 'Labels of local members that federated Services do not get, such as a,example.com/*' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l excluded-annotations -d 'Annotations of local members that federated Services do not get' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l request-timeout -d 'Limit of each request' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -s o -l output -d 'How to print it' -r -f -a "diff\t'One object a line, and what changes in it'
json\t'One JSON document'"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l enable-namespace-creation -d 'Create namespaces that exported Services need'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l enable-headless-services -d 'Mirror headless Services as headless ones, where a Link does not say otherwise'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -l no-local-federation -d 'Leave Services of this cluster out of federated Services'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand plan" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l admin-addr -d 'Where to serve /metrics, /ready, /live and /ping' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l max-in-flight-writes -d 'Objects that are written at the same time' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l max-services-per-link -d 'Services of one target cluster that are mirrored, at most' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l namespace -d 'Namespace of Links and their credentials' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l federated-service-selector -d 'Which Services of this cluster are members of federated Services' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l excluded-labels -d 'Labels of local members that federated Services do not get, such as a,example.com/*' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l excluded-annotations -d 'Annotations of local members that federated Services do not get' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l probe-address -d 'Probe gateways at this address instead of at their probe Services' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l leader-elect -d 'Hold the lease before writing, so that replicas never write at the same time' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l identity -d 'This replica\'s name in the lease [default: the host\'s name]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l lease-duration -d 'How long a lease that is not renewed is respected' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l lease-renew-deadline -d 'How long after its last renewal of the lease a leader gives up' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l lease-retry -d 'Time between two looks at the lease' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l log-level -d 'How much to log' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l log-format -d 'How to log' -r -f -a "plain\t''
json\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l enable-namespace-creation -d 'Create namespaces that exported Services need'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l enable-headless-services -d 'Mirror headless Services as headless ones, where a Link does not say otherwise'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -l no-local-federation -d 'Leave Services of this cluster out of federated Services'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand run-controller" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -l service-account-name -d 'Name of the ServiceAccount; several with commas' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -l namespace -d 'Namespace of the ServiceAccount' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -l mode -d 'What the account may do' -r -f -a "gateway\t'Read what mirroring through the gateway needs'
full\t'Read what pod-to-pod mirroring and federated Services need as well'"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -s o -l output -d 'Format of the output' -r -f -a "yaml\t'Documents separated by `---`'
json\t'One JSON object a line'"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -l ignore-cluster -d 'Print it also when there is such a ServiceAccount, and without asking the cluster'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand allow" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand revoke" -l service-account-name -d 'Name of the ServiceAccount; several with commas' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand revoke" -l namespace -d 'Namespace of the ServiceAccount' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand revoke" -s o -l output -d 'Format of the output' -r -f -a "yaml\t'Documents separated by `---`'
json\t'One JSON object a line'"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand revoke" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand revoke" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand revoke" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand revoke" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand revoke" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand revoke" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand revoke" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand revoke" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand revoke" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -l cluster-name -d 'Name of the target cluster' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -l namespace -d 'Namespace of the Link' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -l wait -d 'With --apply: wait this long' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -s o -l output -d 'Format of the output' -r -f -a "yaml\t'Documents separated by `---`'
json\t'One JSON object a line'"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -l only-controller -d 'Only what Linkerd\'s own controllers for this link left behind'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -l apply -d 'Delete the link, and wait until the controller has removed the mirrors'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -l yes -d 'With --apply: do not ask'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand unlink" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand uninstall" -s o -l output -d 'Format of the output' -r -f -a "yaml\t'Documents separated by `---`'
json\t'One JSON object a line'"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand uninstall" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand uninstall" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand uninstall" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand uninstall" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand uninstall" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand uninstall" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand uninstall" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand uninstall" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand uninstall" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand completions" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand completions" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand completions" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand completions" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand completions" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand completions" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand completions" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand completions" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand man" -l directory -d 'Write all pages to this directory, instead of the main one to stdout' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand man" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand man" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand man" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand man" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand man" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand man" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand man" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand man" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -s o -l output -d 'Format of the output' -r -f -a "table\t'All checks'
basic\t'As table'
short\t'Only checks that fail'
json\t'A JSON object, as `linkerd check -o json` has it'
junit\t'An XML report for CI'"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -l wait -d 'How long to wait for what may still become well, such as a controller that starts' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -l timeout -d 'Time limit for each cluster to answer' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -l proxy -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -s n -l namespace -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -l all-contexts -d 'Ask the clusters of all contexts of the kubeconfig; for some, pass --context a,b,c'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand check" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand gateways" -l cluster-name -d 'Only the gateway of this target cluster' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand gateways" -s w -l wait -d 'Time limit of a request to the cluster' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand gateways" -s o -l output -d '`json`, or anything else for the table' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand gateways" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand gateways" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand gateways" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand gateways" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand gateways" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand gateways" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand gateways" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand gateways" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand gateways" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -l cluster-name -d 'Only Links to this target cluster' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -s o -l output -d 'Format of the output' -r -f -a "table\t'A row a Link'
wide\t'All columns'
json\t'A JSON object'
yaml\t'A YAML document'"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -l for -d 'Condition that --wait waits for' -r -f -a "Ready\t'Credentials valid, connected, and everything written that can be'
Connected\t'The target cluster\'s API server answers'
CredentialsValid\t'The credentials can be used'
GatewayAlive\t'The gateway answers probes (a Link without one meets it)'"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -l timeout -d 'Time limit of --wait' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -l request-timeout -d 'Time limit of a request to a cluster' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -l all-contexts -d 'Ask the clusters of all contexts of the kubeconfig; for some, pass --context a,b,c'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -l services -d 'Show each mirror and federated Service'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -s w -l watch -d 'Show again whenever something changes, until interrupted'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -l wait -d 'Wait until all Links meet --for, and fail when they do not within --timeout'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand status" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand graph" -s o -l output -d 'Format of the output' -r -f -a "text\t'A tree for each cluster'
mermaid\t'A Mermaid flowchart'
dot\t'A Graphviz digraph'
json\t'A JSON object'"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand graph" -l timeout -d 'Time limit of a request to a cluster' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand graph" -l kubeconfig -d 'Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]' -r -F
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand graph" -l context -d 'Context of the kubeconfig [default: its current one]' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand graph" -l as -d 'User to impersonate' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand graph" -l as-group -d 'Group to impersonate (repeatable)' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand graph" -l api-addr -d 'Address of the API server, instead of the kubeconfig\'s' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand graph" -s L -l linkerd-namespace -d 'Namespace of Linkerd\'s control plane' -r
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand graph" -l verbose -d 'Log what is going on to stderr' -r -f -a "true\t''
false\t''"
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand graph" -l all-contexts -d 'Ask the clusters of all contexts of the kubeconfig; for some, pass --context a,b,c'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand graph" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand graph" -s V -l version -d 'Print version'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "install" -d 'Print what a cluster needs to mirror Services from others, and to be mirrored'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "link" -d 'Link two clusters: what `link-gen` prints for the one is applied to the other'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "link-gen" -d 'Print the objects that link another cluster to this one'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "plan" -d 'Show what the controller would create, change and delete for a Link'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "run-controller" -d 'Mirror Services of all linked clusters into this one, until stopped'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "allow" -d 'Print a ServiceAccount with which another cluster can mirror from this one'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "revoke" -d 'Print what `allow` made, for `kubectl delete -f -`'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "unlink" -d 'Print what links a cluster to this one, for `kubectl delete -f -`, or delete it'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "uninstall" -d 'Print what `install` made, for `kubectl delete -f -`'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "completions" -d 'Print a script that makes a shell complete this program\'s flags'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "man" -d 'Print the manual, or write a page for each command'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "check" -d 'Check that linked clusters work, and say what is wrong'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "gateways" -d 'Show whether the gateways of target clusters are alive'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "status" -d 'Show how Links are: connected, gateway, what is mirrored'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "graph" -d 'Show which cluster links to which'
complete -c linkerd-mc -n "__fish_linkerd_mc_using_subcommand help; and not __fish_seen_subcommand_from install link link-gen plan run-controller allow revoke unlink uninstall completions man check gateways status graph help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
