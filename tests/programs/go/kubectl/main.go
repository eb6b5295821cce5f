// kubectl. Tests start it hundreds of times, so it is no part of the binary of the servers: a Go program initializes all
// packages that it is made of each time it starts, and those of the servers take as long as its own.
package main

import (
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	kubectlutil.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
}
