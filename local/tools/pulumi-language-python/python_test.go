package main

import (
	"strings"
	"testing"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"github.com/pulumi/pulumi/sdk/v3/python/toolchain"
)

func TestOptions(t *testing.T) {
	for name, test := range map[string]struct {
		given  map[string]any
		expect toolchain.PythonOptions
		fails  string
	}{
		"none":              {},
		"virtualenv":        {given: map[string]any{"virtualenv": ".venv"}, expect: toolchain.PythonOptions{Virtualenv: ".venv"}},
		"toolchain":         {given: map[string]any{"toolchain": "uv"}, expect: toolchain.PythonOptions{Toolchain: toolchain.Uv}},
		"pip":               {given: map[string]any{"toolchain": "pip"}, expect: toolchain.PythonOptions{Toolchain: toolchain.Pip}},
		"unknown toolchain": {given: map[string]any{"toolchain": "conda"}, fails: `"conda"; it can be pip, poetry or uv`},
		"no type checker":   {given: map[string]any{"typechecker": "none"}},
		"type checker":      {given: map[string]any{"typechecker": "mypy"}, fails: "runs no type checker"},
		"wrong type":        {given: map[string]any{"virtualenv": 3.0}, fails: `"virtualenv" must be a string, not 3`},
		"of a later engine": {given: map[string]any{"newfangled": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.expect.Root, test.expect.ProgramDir = "/project", "/project/program"
			found, err := pythonOptions(&pulumirpc.ProgramInfo{
				RootDirectory: "/project", ProgramDirectory: "/project/program", Options: options(t, test.given),
			})
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Fatalf("got %v, wanted an error with %q", err, test.fails)
				}
				return
			}
			if err != nil || found != test.expect {
				t.Fatalf("got %+v, %v; wanted %+v", found, err, test.expect)
			}
		})
	}
}

func TestConfigurationIsNeverNull(t *testing.T) {
	found, err := configuration(nil, nil)
	if err != nil || len(found) != 2 || found[0] != "PULUMI_CONFIG={}" || found[1] != "PULUMI_CONFIG_SECRET_KEYS=[]" {
		t.Fatalf("got %v, %v", found, err)
	}
	found, err = configuration(map[string]string{"p:k": `{"a":1}`}, []string{"p:s"})
	if err != nil || found[0] != `PULUMI_CONFIG={"p:k":"{\"a\":1}"}` || found[1] != `PULUMI_CONFIG_SECRET_KEYS=["p:s"]` {
		t.Fatalf("got %v, %v", found, err)
	}
}
