package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	sdk "github.com/pulumi/pulumi/sdk/v3"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"github.com/pulumi/pulumi/sdk/v3/python/toolchain"
)

// RunPlugin runs a component plugin (a folder with PulumiPlugin.yaml) or a policy pack (PulumiPolicy.yaml) until it
// ends, and passes on what it prints: first of all the port where the engine is to call it.
func (h *host) RunPlugin(
	request *pulumirpc.RunPluginRequest, server pulumirpc.LanguageRuntime_RunPluginServer,
) error {
	ctx, cancel := h.during(server.Context())
	defer cancel()
	if err := refuseDebugger(request.GetAttachDebugger()); err != nil {
		return err
	}
	python, err := resolve(request.GetInfo())
	if err != nil {
		return err
	}
	if err := python.ValidateVenv(ctx); err != nil {
		return err
	}
	output := &pluginOutput{LanguageRuntime_RunPluginServer: server}
	closer, stdout, stderr, err := rpcutil.MakeRunPluginStreams(output, false)
	if err != nil {
		return err
	}
	defer closer.Close() //nolint:errcheck // Without a terminal there is nothing to close.

	start := runComponents
	if request.GetKind() == "analyzer" {
		start = runPolicies
	}
	code, err := exitCode(ctx, start(ctx, python, request, stdout, stderr))
	if err != nil {
		return fmt.Errorf("running the plugin in %s: %w", request.GetInfo().GetProgramDirectory(), err)
	}
	return output.Send(&pulumirpc.RunPluginResponse{
		Output: &pulumirpc.RunPluginResponse_Exitcode{Exitcode: int32(code)}, //nolint:gosec // 0 to 255
	})
}

func runComponents(
	ctx context.Context, python toolchain.Toolchain, request *pulumirpc.RunPluginRequest, stdout, stderr io.Writer,
) error {
	arguments, err := componentArguments(request.GetInfo().GetProgramDirectory())
	if err != nil {
		return err
	}
	command, err := pluginCommand(ctx, python, request, append(arguments, request.GetArgs()...))
	if err != nil {
		return err
	}
	command.Dir = request.GetPwd()
	command.Stdout, command.Stderr = stdout, stderr
	return command.Run()
}

// componentArguments tell Python what to run of a component plugin: the folder, if it has a __main__.py, or else the
// package that its pyproject.toml describes, whose exported components the SDK then serves.
func componentArguments(folder string) ([]string, error) {
	if exists(filepath.Join(folder, "__main__.py")) {
		return []string{"-u", folder}, nil
	}
	project, err := toolchain.LoadPyproject(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if project.Project == nil || project.Project.Name == "" {
		return nil, fmt.Errorf("%s has neither a __main__.py nor a pyproject.toml that names a package", folder)
	}
	return []string{"-u", "-m", "pulumi.run.plugin", project.Project.Name}, nil
}

// runPolicies runs a policy pack. The pack's library wants the stack and its configuration in its environment from the
// start, and the engine tells them in a call to the pack: the SDK's proxy takes that call first.
func runPolicies(
	ctx context.Context, python toolchain.Toolchain, request *pulumirpc.RunPluginRequest, stdout, stderr io.Writer,
) error {
	folder := request.GetInfo().GetProgramDirectory()
	arguments := append([]string{"-u", "-m", "pulumi.policy"}, request.GetArgs()...)
	command, err := pluginCommand(ctx, python, request, append(arguments, folder))
	if err != nil {
		return err
	}
	proxy, toProxy, err := sdk.NewPolicyProxy(ctx, stdout)
	if err != nil {
		return err
	}
	stack, err := proxy.AwaitConfiguration(ctx)
	if err != nil {
		return err
	}
	if stack != nil {
		variables, err := policyEnvironment(stack)
		if err != nil {
			proxy.Abort(err)
			return err
		}
		extend(command, variables...)
	}
	command.Dir = folder
	command.Stdout, command.Stderr = toProxy, stderr
	if err := command.Start(); err != nil {
		proxy.Abort(err)
		return err
	}
	return proxy.Attach(ctx, command)
}

func policyEnvironment(stack *pulumirpc.AnalyzerStackConfigureRequest) ([]string, error) {
	config, err := configuration(stack.GetConfig(), stack.GetConfigSecretKeys())
	if err != nil {
		return nil, err
	}
	return append(config,
		"PULUMI_ORGANIZATION="+stack.GetOrganization(),
		"PULUMI_PROJECT="+stack.GetProject(),
		"PULUMI_STACK="+stack.GetStack(),
		"PULUMI_DRY_RUN="+strconv.FormatBool(stack.GetDryRun()),
	), nil
}

// pluginCommand is a command in the plugin's Python, with the environment that the engine gives it.
func pluginCommand(
	ctx context.Context, python toolchain.Toolchain, request *pulumirpc.RunPluginRequest, arguments []string,
) (*exec.Cmd, error) {
	command, err := python.Command(ctx, arguments...)
	if err != nil {
		return nil, err
	}
	terminable(command)
	activated := command.Env
	command.Env = request.GetEnv()
	extend(command)
	if activated != nil {
		path, err := python.VirtualEnvPath(ctx)
		if err != nil {
			return nil, err
		}
		command.Env = toolchain.ActivateVirtualEnv(command.Env, path)
	}
	return command, nil
}

// pluginOutput lets standard output and standard error be sent at the same time, which a stream doesn't allow.
type pluginOutput struct {
	pulumirpc.LanguageRuntime_RunPluginServer
	mutex sync.Mutex
}

func (o *pluginOutput) Send(response *pulumirpc.RunPluginResponse) error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.LanguageRuntime_RunPluginServer.Send(response)
}
