package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

func TestRunGivesTheProgramAllThatItNeeds(t *testing.T) {
	client, _ := connect(t)
	info := project(t, `echo "$@" > arguments; env > environment`)
	_, err := client.Run(context.Background(), &pulumirpc.RunRequest{
		Info: info, Project: "valkey", Stack: "dev", Organization: "org", Pwd: info.RootDirectory,
		MonitorAddress: "127.0.0.1:9", DryRun: true, Parallel: 4, Args: []string{"--mine"},
		Config: map[string]string{"valkey:a": "b"}, ConfigSecretKeys: []string{"valkey:c"},
	})
	if err != nil {
		t.Fatal(err)
	}
	expected := "-u /opt/executor --monitor 127.0.0.1:9 --engine 127.0.0.1:7 --project valkey --root_directory " +
		info.RootDirectory + " --stack dev --organization org --pwd " + info.RootDirectory +
		" --dry_run true --parallel 4 -- . --mine\n"
	if found := read(t, info, "arguments"); found != expected {
		t.Errorf("got %q\nwanted %q", found, expected)
	}
	environment := read(t, info, "environment")
	for _, variable := range []string{
		`PULUMI_CONFIG={"valkey:a":"b"}`,
		`PULUMI_CONFIG_SECRET_KEYS=["valkey:c"]`,
		"VIRTUAL_ENV=" + filepath.Join(info.RootDirectory, "venv"),
	} {
		if !strings.Contains(environment, variable+"\n") {
			t.Errorf("%s is missing in %s", variable, environment)
		}
	}
}

func TestRunTellsHowTheProgramEnded(t *testing.T) {
	client, _ := connect(t)
	for script, expected := range map[string]*pulumirpc.RunResponse{
		"exit 0":        {},
		"exit 32":       {Bail: true},
		"exit 3":        {Error: "the program ended with exit code 3"},
		"kill -SEGV $$": {Error: "the program ended with exit code 139"},
	} {
		found, err := client.Run(context.Background(), &pulumirpc.RunRequest{Info: project(t, script)})
		if err != nil {
			t.Errorf("%s: %v", script, err)
		} else if found.Bail != expected.Bail || found.Error != expected.Error {
			t.Errorf("%s: got %v", script, found)
		}
	}
}

func TestWhatEndsARunEndsTheProgramPolitely(t *testing.T) {
	const script = `trap 'touch told; exit 0' TERM; touch began; while :; do sleep 0.01; done`
	for name, end := range map[string]func(context.CancelFunc, pulumirpc.LanguageRuntimeClient, *host){
		"the call": func(cancel context.CancelFunc, _ pulumirpc.LanguageRuntimeClient, _ *host) { cancel() },
		"the engine": func(_ context.CancelFunc, client pulumirpc.LanguageRuntimeClient, _ *host) {
			client.Cancel(context.Background(), &emptypb.Empty{}) //nolint:errcheck // Seen by its effect.
		},
		"the host": func(_ context.CancelFunc, _ pulumirpc.LanguageRuntimeClient, served *host) { served.end() },
	} {
		t.Run(name, func(t *testing.T) {
			client, served := connect(t)
			info := project(t, script)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := client.Run(ctx, &pulumirpc.RunRequest{Info: info})
				ended <- err
			}()
			waitFor(t, filepath.Join(info.RootDirectory, "began"))
			end(cancel, client, served)
			waitFor(t, filepath.Join(info.RootDirectory, "told"))
			select {
			case err := <-ended:
				if err == nil {
					t.Error("a run that was cut off told that it went well")
				}
			case <-time.After(gracePeriod / 2):
				t.Error("the run didn't end")
			}
		})
	}
}

func TestRunWithoutItsVirtualenvSaysWhichOne(t *testing.T) {
	client, _ := connect(t)
	info := project(t, "exit 0")
	write(t, filepath.Join(info.RootDirectory, "other", "file"), "a folder, but no virtualenv", 0o644)
	info.Options = options(t, map[string]any{"virtualenv": "other"})
	_, err := client.Run(context.Background(), &pulumirpc.RunRequest{Info: info})
	if err == nil || !strings.Contains(err.Error(), filepath.Join(info.RootDirectory, "other")) {
		t.Fatalf("got %v", err)
	}
}

func TestADebuggerIsRefused(t *testing.T) {
	client, _ := connect(t)
	_, err := client.Run(context.Background(), &pulumirpc.RunRequest{Info: project(t, "exit 0"), AttachDebugger: true})
	if status.Code(err) != codes.Unimplemented {
		t.Fatalf("got %v", err)
	}
}
