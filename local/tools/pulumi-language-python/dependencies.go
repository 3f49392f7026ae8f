package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"github.com/pulumi/pulumi/sdk/v3/python/toolchain"
)

// GetProgramDependencies lists the Python packages of a project for `pulumi about` and the record of every update. It
// reads what the packages say of themselves: asking pip takes longer than all else that happens before the program runs.
func (h *host) GetProgramDependencies(
	call context.Context, request *pulumirpc.GetProgramDependenciesRequest,
) (*pulumirpc.GetProgramDependenciesResponse, error) {
	ctx, cancel := h.during(call)
	defer cancel()
	python, err := resolve(request.GetInfo())
	if err != nil {
		return nil, err
	}
	folders, err := sitePackages(ctx, python)
	if err != nil {
		return nil, err
	}
	packages, err := installedIn(folders, request.GetTransitiveDependencies())
	if err != nil {
		return nil, err
	}
	return &pulumirpc.GetProgramDependenciesResponse{Dependencies: packages}, nil
}

// GetRequiredPackages lists the plugins that the installed Python packages need, so that the engine can see that it
// has them before it begins.
func (h *host) GetRequiredPackages(
	call context.Context, request *pulumirpc.GetRequiredPackagesRequest,
) (*pulumirpc.GetRequiredPackagesResponse, error) {
	ctx, cancel := h.during(call)
	defer cancel()
	python, err := resolve(request.GetInfo())
	if err != nil {
		return nil, err
	}
	folder := request.GetInfo().GetProgramDirectory()
	if err := python.EnsureVenv(ctx, folder, false, true /*showOutput*/, os.Stderr, os.Stderr); err != nil {
		return nil, fmt.Errorf("preparing the virtualenv: %w", err)
	}
	folders, err := sitePackages(ctx, python)
	if err != nil {
		return nil, err
	}
	response := &pulumirpc.GetRequiredPackagesResponse{}
	for _, site := range folders {
		found, err := pluginsIn(site)
		if err != nil {
			return nil, err
		}
		response.Packages = append(response.Packages, found...)
	}
	return response, nil
}

// sitePackages are the folders where a Python keeps its packages. Those of a virtualenv are known without asking it,
// which takes longer than everything else here.
func sitePackages(ctx context.Context, python toolchain.Toolchain) ([]string, error) {
	if environment, err := python.VirtualEnvPath(ctx); err == nil && environment != "" {
		return filepath.Glob(filepath.Join(environment, "lib", "python*", "site-packages"))
	}
	command, err := python.Command(ctx, "-c", "import site, sys; print(*site.getsitepackages(), sep='\\n')")
	if err != nil {
		return nil, err
	}
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("asking Python for its folders: %w", err)
	}
	return strings.Fields(string(output)), nil
}

// pluginManifest is pulumi-plugin.json, which a Python package of Pulumi carries.
type pluginManifest struct {
	Resource         bool   `json:"resource"`
	Name             string `json:"name"`
	Version          string `json:"version"`
	Server           string `json:"server"`
	Parameterization *struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Value   []byte `json:"value"`
	} `json:"parameterization"`
}

// pluginsIn reads the manifests of all packages in one folder, in the order of their names.
func pluginsIn(site string) ([]*pulumirpc.PackageDependency, error) {
	manifests, err := filepath.Glob(filepath.Join(site, "*", "pulumi-plugin.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(manifests)
	var plugins []*pulumirpc.PackageDependency
	for _, path := range manifests {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var manifest pluginManifest
		if err := json.Unmarshal(content, &manifest); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if !manifest.Resource {
			continue
		}
		plugins = append(plugins, dependency(manifest, filepath.Base(filepath.Dir(path)), site))
	}
	return plugins, nil
}

func dependency(manifest pluginManifest, module, site string) *pulumirpc.PackageDependency {
	required := &pulumirpc.PackageDependency{
		Kind:    "resource",
		Name:    manifest.Name,
		Version: manifest.Version,
		Server:  manifest.Server,
	}
	if required.Name == "" {
		required.Name = strings.ReplaceAll(strings.TrimPrefix(module, "pulumi_"), "_", "-")
	}
	if required.Version == "" {
		required.Version = installedVersion(module, site)
	}
	if given := manifest.Parameterization; given != nil {
		required.Parameterization = &pulumirpc.PackageParameterization{
			Name: given.Name, Version: given.Version, Value: given.Value,
		}
	}
	return required
}

var release = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

// installedVersion is the version in the name of a package's folder of metadata (pulumi_random-4.18.0.dist-info), or
// nothing, which the engine takes for "any", where that is no plain release.
func installedVersion(module, site string) string {
	folders, err := filepath.Glob(filepath.Join(site, module+"-*.dist-info"))
	if err != nil || len(folders) != 1 {
		return ""
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(folders[0]), module+"-"), ".dist-info")
	if !release.MatchString(version) {
		return ""
	}
	return version
}
