package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	sdk "github.com/pulumi/pulumi/sdk/v3"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// host serves the engine. Calls may come in parallel. What isn't here answers that it is unimplemented, which the
// engine takes for what it is.
type host struct {
	pulumirpc.UnimplementedLanguageRuntimeServer

	executor string
	engine   atomic.Pointer[string]
	// alive ends, and with it whatever runs, when the engine cancels, goes away, or we are told to stop.
	alive context.Context
	end   context.CancelFunc
}

func newHost(ctx context.Context, engine, executor string) *host {
	alive, end := context.WithCancel(ctx)
	served := &host{executor: executor, alive: alive, end: end}
	served.engine.Store(&engine)
	return served
}

// during gives the context of a call that ends with the call, and with the host.
func (h *host) during(call context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(call)
	stop := context.AfterFunc(h.alive, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

func (h *host) Handshake(
	_ context.Context, request *pulumirpc.LanguageHandshakeRequest,
) (*pulumirpc.LanguageHandshakeResponse, error) {
	address := request.GetEngineAddress()
	h.engine.Store(&address)
	return &pulumirpc.LanguageHandshakeResponse{}, nil
}

func (h *host) GetPluginInfo(context.Context, *emptypb.Empty) (*pulumirpc.PluginInfo, error) {
	return &pulumirpc.PluginInfo{Version: sdk.Version.String()}, nil
}

func (h *host) Cancel(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	h.end()
	return &emptypb.Empty{}, nil
}

func (h *host) RuntimeOptionsPrompts(
	context.Context, *pulumirpc.RuntimeOptionsRequest,
) (*pulumirpc.RuntimeOptionsResponse, error) {
	return &pulumirpc.RuntimeOptionsResponse{}, nil
}

func (h *host) About(
	call context.Context, request *pulumirpc.AboutRequest,
) (*pulumirpc.AboutResponse, error) {
	ctx, cancel := h.during(call)
	defer cancel()
	python, err := resolve(request.GetInfo())
	if err != nil {
		return nil, err
	}
	// Every command asks this. One short run tells both; the SDK's own way starts Python three times, pip among them.
	const asks = "import platform, sys; print(sys.executable); print(platform.python_version())"
	command, err := python.Command(ctx, "-c", asks)
	if err != nil {
		return nil, err
	}
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("asking Python for its version: %w", err)
	}
	executable, version, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	return &pulumirpc.AboutResponse{Executable: executable, Version: version}, nil
}

// refuseDebugger says so where somebody asks for what we can't do, rather than running without it.
func refuseDebugger(attach bool) error {
	if attach {
		return status.Error(codes.Unimplemented,
			name+" can't attach a debugger; with the language host of Pulumi's own distribution on PATH it works")
	}
	return nil
}
