package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"github.com/pulumi/pulumi/sdk/v3/python/toolchain"
)

// resolve gives the Python that the options of a project (the part `runtime.options` of its Pulumi.yaml) ask for.
func resolve(info *pulumirpc.ProgramInfo) (toolchain.Toolchain, error) {
	options, err := pythonOptions(info)
	if err != nil {
		return nil, err
	}
	return toolchain.ResolveToolchain(options)
}

func pythonOptions(info *pulumirpc.ProgramInfo) (toolchain.PythonOptions, error) {
	options := toolchain.PythonOptions{Root: info.GetRootDirectory(), ProgramDir: info.GetProgramDirectory()}
	for key, value := range info.GetOptions().AsMap() {
		text, isText := value.(string)
		if !isText {
			return options, fmt.Errorf("runtime option %q must be a string, not %v", key, value)
		}
		switch key {
		case "virtualenv":
			options.Virtualenv = text
		case "toolchain":
			switch text {
			case "pip":
				options.Toolchain = toolchain.Pip
			case "poetry":
				options.Toolchain = toolchain.Poetry
			case "uv":
				options.Toolchain = toolchain.Uv
			default:
				return options, fmt.Errorf("runtime option \"toolchain\" is %q; it can be pip, poetry or uv", text)
			}
		case "typechecker":
			if text != "" && text != "none" {
				return options, fmt.Errorf("runtime option \"typechecker\" is %q, but this language host runs no type "+
					"checker; remove it, or install Pulumi's own distribution", text)
			}
		}
	}
	return options, nil
}

// extend adds variables to the environment that a command has got already: the toolchain activates a virtualenv there.
func extend(command *exec.Cmd, variables ...string) {
	if command.Env == nil {
		command.Env = os.Environ()
	}
	command.Env = append(slices.Clip(command.Env), variables...)
}

// configuration is how a stack's configuration reaches the SDK. The SDK takes null for neither of the two.
func configuration(values map[string]string, secretKeys []string) ([]string, error) {
	if values == nil {
		values = map[string]string{}
	}
	if secretKeys == nil {
		secretKeys = []string{}
	}
	valuesJSON, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	keysJSON, err := json.Marshal(secretKeys)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return []string{"PULUMI_CONFIG=" + string(valuesJSON), "PULUMI_CONFIG_SECRET_KEYS=" + string(keysJSON)}, nil
}
