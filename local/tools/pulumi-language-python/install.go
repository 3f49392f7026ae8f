package main

import (
	"sync"

	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"github.com/pulumi/pulumi/sdk/v3/python/toolchain"
)

// InstallDependencies makes the virtualenv that the options name and installs what the project asks for
// (requirements.txt, or what the toolchain goes by), showing what is done as it is done.
func (h *host) InstallDependencies(
	request *pulumirpc.InstallDependenciesRequest, server pulumirpc.LanguageRuntime_InstallDependenciesServer,
) error {
	ctx, cancel := h.during(server.Context())
	defer cancel()
	python, err := resolve(request.GetInfo())
	if err != nil {
		return err
	}
	output := &installOutput{LanguageRuntime_InstallDependenciesServer: server}
	closer, stdout, stderr, err := rpcutil.MakeInstallDependenciesStreams(output, request.GetIsTerminal())
	if err != nil {
		return err
	}
	defer closer.Close() //nolint:errcheck // Closed below where it matters; twice is harmless.

	folder := request.GetInfo().GetProgramDirectory()
	versions := request.GetUseLanguageVersionTools()
	if err := python.InstallDependencies(ctx, folder, versions, true /*showOutput*/, stdout, stderr); err != nil {
		return err
	}
	if request.GetIsPlugin() {
		isPackage, err := toolchain.IsBuildablePackage(folder)
		if err != nil {
			return err
		}
		if isPackage {
			if err := python.InstallPackage(ctx, folder, versions, true /*showOutput*/, stdout, stderr); err != nil {
				return err
			}
		}
	}
	return closer.Close() // What a terminal still holds is sent now.
}

// installOutput lets standard output and standard error be sent at the same time, which a stream doesn't allow.
type installOutput struct {
	pulumirpc.LanguageRuntime_InstallDependenciesServer
	mutex sync.Mutex
}

func (o *installOutput) Send(response *pulumirpc.InstallDependenciesResponse) error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.LanguageRuntime_InstallDependenciesServer.Send(response)
}
