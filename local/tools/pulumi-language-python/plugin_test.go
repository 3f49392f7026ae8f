package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

func TestWhatIsRunOfAComponentPlugin(t *testing.T) {
	runnable, described, neither := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(runnable, "__main__.py"), "", 0o644)
	write(t, filepath.Join(runnable, "pyproject.toml"), "[project]\nname = \"mine\"\n", 0o644)
	write(t, filepath.Join(described, "pyproject.toml"), "[project]\nname = \"mine\"\n", 0o644)

	if found, err := componentArguments(runnable); err != nil || !slices.Equal(found, []string{"-u", runnable}) {
		t.Errorf("got %v, %v", found, err)
	}
	expected := []string{"-u", "-m", "pulumi.run.plugin", "mine"}
	if found, err := componentArguments(described); err != nil || !slices.Equal(found, expected) {
		t.Errorf("got %v, %v", found, err)
	}
	if found, err := componentArguments(neither); err == nil || !strings.Contains(err.Error(), neither) {
		t.Errorf("got %v, %v", found, err)
	}
}

func TestRunPluginPassesOnWhatItPrintsAndHowItEnds(t *testing.T) {
	client, _ := connect(t)
	info := project(t, `echo 4711; echo "$@ $GIVEN" >&2; for i in 1 2 3; do echo out$i; echo err$i >&2; done; exit 5`)
	write(t, filepath.Join(info.RootDirectory, "__main__.py"), "", 0o644)
	stream, err := client.RunPlugin(context.Background(), &pulumirpc.RunPluginRequest{
		Info: info, Kind: "resource", Args: []string{"127.0.0.1:7"}, Env: []string{"GIVEN=given", "PATH=/usr/bin:/bin"},
		Pwd: info.RootDirectory,
	})
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	code := int32(-1)
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		stdout.Write(message.GetStdout())
		stderr.Write(message.GetStderr())
		if _, ended := message.Output.(*pulumirpc.RunPluginResponse_Exitcode); ended {
			code = message.GetExitcode()
		}
	}
	if found := stdout.String(); found != "4711\nout1\nout2\nout3\n" {
		t.Errorf("standard output: %q", found)
	}
	if found := stderr.String(); found != "-u "+info.RootDirectory+" 127.0.0.1:7 given\nerr1\nerr2\nerr3\n" {
		t.Errorf("standard error: %q", found)
	}
	if code != 5 {
		t.Errorf("exit code %d", code)
	}
}

func TestAPolicyPackIsToldItsStack(t *testing.T) {
	found, err := policyEnvironment(&pulumirpc.AnalyzerStackConfigureRequest{
		Organization: "org", Project: "valkey", Stack: "dev", DryRun: true,
		Config: map[string]string{"valkey:a": "b"}, ConfigSecretKeys: []string{"valkey:a"},
	})
	expected := []string{
		`PULUMI_CONFIG={"valkey:a":"b"}`, `PULUMI_CONFIG_SECRET_KEYS=["valkey:a"]`,
		"PULUMI_ORGANIZATION=org", "PULUMI_PROJECT=valkey", "PULUMI_STACK=dev", "PULUMI_DRY_RUN=true",
	}
	if err != nil || !slices.Equal(found, expected) {
		t.Fatalf("got %v, %v", found, err)
	}
}
