// One binary that is etcd, kube-apiserver and kube-controller-manager, told apart by the name it is started under
// (a symlink), or else by its first argument. The three share most of their code, so that one link step makes all
// of them in less time and disk than separate programs would take.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // registers the metrics of API clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // registers the version metric
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

var programs = map[string]func() int{
	"etcd": func() int {
		etcdmain.Main(os.Args)
		return 0
	},
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": controllerManager,
}

func main() {
	run, found := programs[filepath.Base(os.Args[0])]
	if !found && len(os.Args) > 1 {
		if run, found = programs[os.Args[1]]; found {
			os.Args = os.Args[1:]
		}
	}
	if !found {
		fmt.Fprintln(os.Stderr, "usage: etcd|kube-apiserver|kube-controller-manager [argument]...")
		os.Exit(2)
	}
	os.Exit(run())
}
