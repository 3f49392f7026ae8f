package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

func TestPluginsOfInstalledPackages(t *testing.T) {
	client, _ := connect(t)
	info := project(t, "exit 1") // Nobody needs to ask Python for that.
	site := filepath.Join(info.RootDirectory, "venv", "lib", "python3.11", "site-packages")
	for path, content := range map[string]string{
		"pulumi_kubernetes/pulumi-plugin.json": `{"resource": true, "name": "kubernetes", "version": "4.25.0"}`,
		"pulumi_aws_native/pulumi-plugin.json": `{"resource": true, "server": "https://plugins.example"}`,
		"pulumi_aws_native-1.2.3.dist-info/x":  "",
		"pulumi_random/pulumi-plugin.json":     `{"resource": true}`,
		"pulumi_random-4.0.0a1.dist-info/x":    "",
		"pulumi_policy/pulumi-plugin.json":     `{"resource": false, "name": "policy"}`,
		"pulumi_bridged/pulumi-plugin.json": `{"resource": true, "name": "terraform-provider", "version": "1.0.0",
			"parameterization": {"name": "bridged", "version": "2.0.0", "value": "eyJ9"}}`,
		"requests/__init__.py": "",
	} {
		write(t, filepath.Join(site, path), content, 0o644)
	}
	response, err := client.GetRequiredPackages(
		context.Background(), &pulumirpc.GetRequiredPackagesRequest{Info: info})
	if err != nil {
		t.Fatal(err)
	}
	expected := []struct{ name, version, server, parameterization string }{
		{"aws-native", "1.2.3", "https://plugins.example", ""},
		{"terraform-provider", "1.0.0", "", "bridged"},
		{"kubernetes", "4.25.0", "", ""},
		{"random", "", "", ""},
	}
	if len(response.Packages) != len(expected) {
		t.Fatalf("got %v", response.Packages)
	}
	for i, wanted := range expected {
		found := response.Packages[i]
		if found.Name != wanted.name || found.Version != wanted.version || found.Server != wanted.server ||
			found.GetParameterization().GetName() != wanted.parameterization || found.Kind != "resource" {
			t.Errorf("got %v, wanted %v", found, wanted)
		}
	}
}

func TestInstalledPackagesAreListedWithoutAskingPython(t *testing.T) {
	client, _ := connect(t)
	info := project(t, "exit 1")
	site := filepath.Join(info.RootDirectory, "venv", "lib", "python3.11", "site-packages")
	for folder, metadata := range map[string]string{
		"pulumi-3.200.0": "Metadata-Version: 2.4\nName: pulumi\nVersion: 3.200.0\n" +
			"Requires-Dist: grpcio<2,>=1\nRequires-Dist: PyYAML ~= 6.0\n",
		"grpcio-1.70.0": "Name: grpcio\nVersion: 1.70.0\nRequires-Dist: odd.name; extra == 'protobuf'\n\nName: text\n",
		"pyyaml-6.0.2":  "Name: PyYAML\nVersion: 6.0.2\n",
		"odd_name-1":    "Name: Odd_Name\nVersion: 1\n",
		"nameless-1":    "Version: 1\n",
	} {
		write(t, filepath.Join(site, folder+".dist-info", "METADATA"), metadata, 0o644)
	}
	for transitive, expected := range map[bool]string{
		true: "Odd_Name 1, PyYAML 6.0.2, grpcio 1.70.0, pulumi 3.200.0", false: "Odd_Name 1, pulumi 3.200.0",
	} {
		response, err := client.GetProgramDependencies(
			context.Background(),
			&pulumirpc.GetProgramDependenciesRequest{Info: info, TransitiveDependencies: transitive})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, one := range response.Dependencies {
			told = append(told, one.Name+" "+one.Version)
		}
		if got := strings.Join(told, ", "); got != expected {
			t.Errorf("got %s, wanted %s", got, expected)
		}
	}
}

func TestADamagedManifestIsNamed(t *testing.T) {
	site := t.TempDir()
	path := filepath.Join(site, "pulumi_broken", "pulumi-plugin.json")
	write(t, path, "{", 0o644)
	if _, err := pluginsIn(site); err == nil || !filepath.IsAbs(path) || err.Error()[:len(path)] != path {
		t.Fatalf("got %v", err)
	}
}

func TestAbout(t *testing.T) {
	client, _ := connect(t)
	info := project(t, "echo /x/python; echo 3.11.7")
	about, err := client.About(context.Background(), &pulumirpc.AboutRequest{Info: info})
	if err != nil || about.Executable != "/x/python" || about.Version != "3.11.7" {
		t.Fatalf("got %v, %v", about, err)
	}
}
