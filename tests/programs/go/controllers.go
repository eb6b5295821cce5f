//go:build !oldest

// kube-controller-manager with the controllers that tests use, and no others: those for nodes, volumes and Pods would
// add 300 packages, which take half a minute to compile. The controllers themselves are Kubernetes' own. The flags have
// the names, meanings and defaults of the original's, so that the original can take its place (KUBEBUILDER_ASSETS).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	serviceaccounts "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// What the original has flags for that nobody sets here, with its defaults.
const (
	resyncPeriod       = 12 * time.Hour
	discoveryPeriod    = 30 * time.Second
	namespaceResync    = 5 * time.Minute
	endpointsPerSlice  = 100
	endpointsPerSubset = 1000
)

const apiServerPoll = 50 * time.Millisecond

type options struct {
	controllers, kubeconfig, rootCAFile, keyFile    string
	qps                                             float64
	burst                                           int
	endpointWorkers, sliceWorkers, mirroringWorkers int
}

func parse(arguments []string) options {
	var o options
	flags := flag.NewFlagSet("kube-controller-manager", flag.ExitOnError)
	flags.StringVar(&o.controllers, "controllers", "", "names of the controllers to start, comma-separated")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig of the API server")
	flags.StringVar(&o.rootCAFile, "root-ca-file", "", "certificates that go into tokens and namespaces")
	flags.StringVar(&o.keyFile, "service-account-private-key-file", "", "key that signs tokens")
	flags.Float64Var(&o.qps, "kube-api-qps", 20, "requests a second, for each controller")
	flags.IntVar(&o.burst, "kube-api-burst", 30, "requests at once, for each controller")
	flags.IntVar(&o.endpointWorkers, "concurrent-endpoint-syncs", 5, "workers of the endpoints controller")
	flags.IntVar(&o.sliceWorkers, "concurrent-service-endpoint-syncs", 5, "workers of the EndpointSlice controller")
	flags.IntVar(&o.mirroringWorkers, "mirroring-concurrent-service-endpoint-syncs", 5,
		"workers of the EndpointSlice mirroring controller")
	elect := flags.Bool("leader-elect", true, "must be false")
	port := flags.Int("secure-port", 10257, "must be 0")
	_ = flags.Parse(arguments) // ends the process if it fails
	if *elect || *port != 0 {
		fail(errors.New("needs --leader-elect=false and --secure-port=0"))
	}
	return o
}

// What controllers are made with.
type manager struct {
	options
	clientbuilder.SimpleControllerClientBuilder
	informers informers.SharedInformerFactory
	metadata  metadatainformer.SharedInformerFactory
	rootCA    []byte
	started   chan struct{} // closed when the informers are
}

// Each makes a controller, and returns what runs it.
var constructors = map[string]func(context.Context, *manager) func(context.Context){
	"serviceaccount-token-controller":          tokens,
	"serviceaccount-controller":                accounts,
	"namespace-controller":                     namespaces,
	"garbage-collector-controller":             garbage,
	"endpoints-controller":                     endpoints,
	"endpointslice-controller":                 slices,
	"endpointslice-mirroring-controller":       mirroring,
	"clusterrole-aggregation-controller":       clusterRoles,
	"root-ca-certificate-publisher-controller": rootCAs,
}

func controllerManager() int {
	o := parse(os.Args[1:])
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // v1 Endpoints are deprecated
	config := must(clientcmd.BuildConfigFromFlags("", o.kubeconfig))
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.DisableCompression = true
	config.QPS, config.Burst = float32(o.qps), o.burst

	clients := clientbuilder.SimpleControllerClientBuilder{ClientConfig: config}
	client := clients.ClientOrDie("shared-informers")
	m := &manager{
		options:                       o,
		SimpleControllerClientBuilder: clients,
		informers: informers.NewSharedInformerFactoryWithOptions(client, resyncPeriod,
			informers.WithTransform(dropManagedFields)),
		metadata: metadatainformer.NewSharedInformerFactoryWithOptions(
			metadata.NewForConfigOrDie(clients.ConfigOrDie("metadata-informers")), resyncPeriod,
			metadatainformer.WithTransform(dropManagedFields)),
		rootCA:  must(os.ReadFile(o.rootCAFile)),
		started: make(chan struct{}),
	}

	ctx := context.Background()
	waitForAPIServer(ctx, client)
	var controllers []func(context.Context)
	for _, name := range strings.Split(o.controllers, ",") {
		construct, found := constructors[name]
		if !found {
			fail(fmt.Errorf("has no controller %q", name))
		}
		controllers = append(controllers, construct(ctx, m))
	}
	m.informers.Start(ctx.Done())
	m.metadata.Start(ctx.Done())
	close(m.started)
	for _, run := range controllers {
		go run(ctx)
	}
	select {}
}

// Nothing of what informers keep of an object is written back.
func dropManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// Informers that find no API server would come back after a second or more.
func waitForAPIServer(ctx context.Context, client kubernetes.Interface) {
	for {
		result := client.Discovery().RESTClient().Get().AbsPath("/healthz").Do(ctx)
		if result.Error() == nil {
			return
		}
		time.Sleep(apiServerPoll)
	}
}

func tokens(ctx context.Context, m *manager) func(context.Context) {
	key := must(keyutil.PrivateKeyFromFile(m.keyFile))
	c := must(serviceaccounts.NewTokensController(klog.FromContext(ctx),
		m.informers.Core().V1().ServiceAccounts(), m.informers.Core().V1().Secrets(),
		m.ClientOrDie("tokens-controller"), serviceaccounts.TokensControllerOptions{
			TokenGenerator: must(serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)),
			RootCA:         m.rootCA,
		}))
	return func(ctx context.Context) { c.Run(ctx, 5) }
}

func accounts(ctx context.Context, m *manager) func(context.Context) {
	c := must(serviceaccounts.NewServiceAccountsController(klog.FromContext(ctx),
		m.informers.Core().V1().ServiceAccounts(), m.informers.Core().V1().Namespaces(),
		m.ClientOrDie("service-account-controller"), serviceaccounts.DefaultServiceAccountsControllerOptions()))
	return func(ctx context.Context) { c.Run(ctx, 1) }
}

func namespaces(ctx context.Context, m *manager) func(context.Context) {
	// One namespace takes as many requests as there are resources.
	config := m.ConfigOrDie("namespace-controller")
	config.QPS, config.Burst = config.QPS*20, config.Burst*100
	client := kubernetes.NewForConfigOrDie(config)
	c := namespace.NewNamespaceController(ctx, client, metadata.NewForConfigOrDie(config),
		client.Discovery().ServerPreferredNamespacedResources, m.informers.Core().V1().Namespaces(),
		namespaceResync, corev1.FinalizerKubernetes)
	return func(ctx context.Context) { c.Run(ctx, 10) }
}

func garbage(ctx context.Context, m *manager) func(context.Context) {
	const name = "generic-garbage-collector"
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(
		memory.NewMemCacheClient(m.DiscoveryClientOrDie("controller-discovery")))
	config := m.ConfigOrDie(name)
	config.QPS *= 2 // two requests for each object
	c := must(garbagecollector.NewGarbageCollector(ctx, m.ClientOrDie(name), metadata.NewForConfigOrDie(config),
		mapper, garbagecollector.DefaultIgnoredResources(), informerfactory.NewInformerFactory(m.informers, m.metadata), m.started))
	discovery := m.DiscoveryClientOrDie(name) // not the mapper's, whose cache is cleared when this one finds a new resource
	return func(ctx context.Context) {
		go wait.UntilWithContext(ctx, func(context.Context) { mapper.Reset() }, discoveryPeriod)
		go c.Sync(ctx, discovery, discoveryPeriod)
		c.Run(ctx, 20, discoveryPeriod)
	}
}

func endpoints(ctx context.Context, m *manager) func(context.Context) {
	core := m.informers.Core().V1()
	c := endpoint.NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(),
		m.ClientOrDie("endpoint-controller"), 0)
	return func(ctx context.Context) { c.Run(ctx, m.endpointWorkers) }
}

func slices(ctx context.Context, m *manager) func(context.Context) {
	core := m.informers.Core().V1()
	c := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(),
		m.informers.Discovery().V1().EndpointSlices(), endpointsPerSlice,
		m.ClientOrDie("endpointslice-controller"), 0)
	return func(ctx context.Context) { c.Run(ctx, m.sliceWorkers) }
}

func mirroring(ctx context.Context, m *manager) func(context.Context) {
	core := m.informers.Core().V1()
	c := endpointslicemirroring.NewController(ctx, core.Endpoints(),
		m.informers.Discovery().V1().EndpointSlices(), core.Services(), endpointsPerSubset,
		m.ClientOrDie("endpointslicemirroring-controller"), 0)
	return func(ctx context.Context) { c.Run(ctx, m.mirroringWorkers) }
}

func clusterRoles(_ context.Context, m *manager) func(context.Context) {
	c := clusterroleaggregation.NewClusterRoleAggregation(m.informers.Rbac().V1().ClusterRoles(),
		m.ClientOrDie("clusterrole-aggregation-controller").RbacV1())
	return func(ctx context.Context) { c.Run(ctx, 5) }
}

func rootCAs(_ context.Context, m *manager) func(context.Context) {
	c := must(rootcacertpublisher.NewPublisher(m.informers.Core().V1().ConfigMaps(),
		m.informers.Core().V1().Namespaces(), m.ClientOrDie("root-ca-cert-publisher"), m.rootCA))
	return func(ctx context.Context) { c.Run(ctx, 1) }
}

func must[T any](value T, err error) T {
	if err != nil {
		fail(err)
	}
	return value
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kube-controller-manager:", err)
	os.Exit(1)
}
