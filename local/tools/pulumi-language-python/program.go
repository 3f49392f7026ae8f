package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

// With this code a program says that it has told the user itself what went wrong.
const exitAfterMessage = 32

// Run executes a program for `up`, `preview`, `refresh` or `destroy`.
func (h *host) Run(call context.Context, request *pulumirpc.RunRequest) (*pulumirpc.RunResponse, error) {
	ctx, cancel := h.during(call)
	defer cancel()
	if err := refuseDebugger(request.GetAttachDebugger()); err != nil {
		return nil, err
	}
	info := request.GetInfo()
	python, err := resolve(info)
	if err != nil {
		return nil, err
	}
	// A first `up` in a fresh checkout makes the virtualenv that the project asks for.
	if err := python.EnsureVenv(ctx, info.GetProgramDirectory(), false, true, os.Stderr, os.Stderr); err != nil {
		return nil, fmt.Errorf("preparing the virtualenv: %w", err)
	}
	if err := python.ValidateVenv(ctx); err != nil {
		return nil, err
	}
	command, err := python.Command(ctx, h.arguments(request)...)
	if err != nil {
		return nil, err
	}
	terminable(command)
	config, err := configuration(request.GetConfig(), request.GetConfigSecretKeys())
	if err != nil {
		return nil, err
	}
	extend(command, config...)
	// The engine shows what comes from these two, line by line.
	command.Stdout, command.Stderr = os.Stdout, os.Stderr

	code, err := exitCode(ctx, command.Run())
	switch {
	case err != nil:
		return nil, fmt.Errorf("running the program: %w", err)
	case code == exitAfterMessage:
		return &pulumirpc.RunResponse{Bail: true}, nil
	case code != 0:
		return &pulumirpc.RunResponse{Error: fmt.Sprintf("the program ended with exit code %d", code)}, nil
	}
	return &pulumirpc.RunResponse{}, nil
}

// arguments are those of the executor. Python runs unbuffered, so that nothing that a program printed gets lost.
func (h *host) arguments(request *pulumirpc.RunRequest) []string {
	arguments := []string{"-u", h.executor}
	option := func(name, value string) {
		if value != "" {
			arguments = append(arguments, "--"+name, value)
		}
	}
	option("monitor", request.GetMonitorAddress())
	option("engine", *h.engine.Load())
	option("project", request.GetProject())
	option("root_directory", request.GetInfo().GetRootDirectory())
	option("stack", request.GetStack())
	option("organization", request.GetOrganization())
	option("pwd", request.GetPwd())
	option("dry_run", strconv.FormatBool(request.GetDryRun()))
	option("parallel", strconv.Itoa(int(request.GetParallel())))
	// A program's own arguments may look like options.
	return append(append(arguments, "--", request.GetInfo().GetEntryPoint()), request.GetArgs()...)
}
