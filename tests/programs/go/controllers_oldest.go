//go:build oldest

// kube-controller-manager as a whole, for oldest.mod: constructors of controllers had other parameters at that time, and
// that release is built rarely.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func controllerManager() int { return cli.Run(app.NewControllerManagerCommand()) }
