// Command kubernetes is every Kubernetes process of the local platform in one binary.
//
// The components share almost all of their code, so that one multi-call binary is built in a fraction of the
// time, and takes a fraction of the space, of six separate ones. The name under which it is called (a symbolic
// link) or else its first argument selects the component.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	called := filepath.Base(os.Args[0])
	if _, known := components[called]; !known && len(os.Args) > 1 {
		called = os.Args[1]
		os.Args = os.Args[1:]
	}
	command, known := components[called]
	if !known {
		names := make([]string, 0, len(components))
		for name := range components {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "%q is no component; the components are: %s\n", called, strings.Join(names, ", "))
		os.Exit(2)
	}
	if called == "kubectl" {
		// kubectl prints its own errors; component-base's runner would print them once more.
		if err := cli.RunNoErrOutput(command()); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(cli.Run(command()))
}
