package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"
)

// project is a folder with a virtualenv whose Python is this shell script.
func project(t *testing.T, python string) *pulumirpc.ProgramInfo {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "venv", "bin", "python"), "#!/bin/sh\ncd '"+root+"'\n"+python+"\n", 0o755)
	return &pulumirpc.ProgramInfo{
		RootDirectory:    root,
		ProgramDirectory: root,
		EntryPoint:       ".",
		Options:          options(t, map[string]any{"virtualenv": "venv"}),
	}
}

func options(t *testing.T, values map[string]any) *structpb.Struct {
	t.Helper()
	made, err := structpb.NewStruct(values)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, info *pulumirpc.ProgramInfo, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(info.RootDirectory, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func waitFor(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !exists(path); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s didn't appear", path)
		}
	}
}

// connect serves a host and gives the client that an engine would have.
func connect(t *testing.T) (pulumirpc.LanguageRuntimeClient, *host) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := newHost(context.Background(), "127.0.0.1:7", "/opt/executor")
	server := grpc.NewServer()
	pulumirpc.RegisterLanguageRuntimeServer(server, served)
	go server.Serve(listener) //nolint:errcheck // It ends with the test.
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient(
		listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() }) //nolint:errcheck,gosec // It ends with the test.
	return pulumirpc.NewLanguageRuntimeClient(connection), served
}
