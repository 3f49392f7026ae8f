// Command pulumi-language-python runs Pulumi programs, policy packs and plugins that are written in Python.
//
// Pulumi's engine starts it, reads a port from its standard output and calls it there. Pulumi's own language host is
// preferred wherever it is installed; this one serves where only published Go modules are to be had. It stands on the
// SDK's public packages, and leaves out what takes the code generators: packages of other languages can't be
// generated, linked or converted with it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/util/cmdutil"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/logging"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
)

const (
	name = "pulumi-language-python"
	// executor is Pulumi's own script that sets up the SDK and then runs the program. It is installed beside us.
	executor = "pulumi-language-python-exec"
	// An engine that was killed leaves us behind: this often we see whether it is still there.
	healthInterval = 2 * time.Second
)

func main() {
	tracing := flag.String("tracing", "", "where to send traces")
	// Older engines pass these; everything that they say is in each call, too.
	flag.String("root", "", "ignored")
	flag.String("virtualenv", "", "ignored")
	flag.Parse()
	// The flags v and logtostderr are the logging library's own.
	logging.InitLogging(false, 0, false)
	cmdutil.InitTracing(name, name, *tracing)

	if err := serve(flag.Arg(0)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// serve answers the engine at that address until it is gone, or until a signal says to stop.
func serve(engine string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the folder of %s: %w", executor, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if engine != "" {
		if err := rpcutil.Healthcheck(ctx, engine, healthInterval, stop); err != nil {
			return fmt.Errorf("watching the engine at %s: %w", engine, err)
		}
	}
	cancel := make(chan bool)
	context.AfterFunc(ctx, func() { close(cancel) })

	host := newHost(ctx, engine, filepath.Join(filepath.Dir(self), executor))
	server, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: cancel,
		Init: func(registrar *grpc.Server) error {
			pulumirpc.RegisterLanguageRuntimeServer(registrar, host)
			return nil
		},
	})
	if err != nil {
		return err
	}
	fmt.Printf("%d\n", server.Port)
	return <-server.Done
}
