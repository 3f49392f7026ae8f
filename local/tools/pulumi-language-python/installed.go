package main

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

// installedPackage is what a package says of itself in its folder of metadata.
type installedPackage struct {
	name, version string
	needs         []string // Normalized; what only an extra needs is left out.
}

// installedIn lists the packages in the folders in the order of their names: all of them, or only those that no other
// one needs.
func installedIn(folders []string, transitive bool) ([]*pulumirpc.DependencyInfo, error) {
	found := map[string]installedPackage{}
	for _, folder := range folders {
		described, err := filepath.Glob(filepath.Join(folder, "*.dist-info", "METADATA"))
		if err != nil {
			return nil, err
		}
		for _, path := range described {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			one := describedBy(content)
			if _, shadowed := found[normalized(one.name)]; one.name != "" && !shadowed {
				found[normalized(one.name)] = one // Python, too, takes the one in the first folder.
			}
		}
	}
	needed := map[string]bool{}
	for _, one := range found {
		for _, name := range one.needs {
			needed[name] = true
		}
	}
	var listed []*pulumirpc.DependencyInfo
	for name, one := range found {
		if transitive || !needed[name] {
			listed = append(listed, &pulumirpc.DependencyInfo{Name: one.name, Version: one.version})
		}
	}
	slices.SortFunc(listed, func(a, b *pulumirpc.DependencyInfo) int { return strings.Compare(a.Name, b.Name) })
	return listed, nil
}

var (
	separators = regexp.MustCompile(`[-_.]+`)
	nameOnly   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*`)
	extraOnly  = regexp.MustCompile(`\bextra\s*==`)
)

// describedBy reads the head of a METADATA file (core metadata, PEP 566): lines up to the first empty one.
func describedBy(content []byte) installedPackage {
	var described installedPackage
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	for lines.Scan() && lines.Text() != "" {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "Name":
			described.name = value
		case "Version":
			described.version = value
		case "Requires-Dist":
			_, marker, _ := strings.Cut(value, ";")
			if !extraOnly.MatchString(marker) {
				described.needs = append(described.needs, normalized(nameOnly.FindString(value)))
			}
		}
	}
	return described
}

// normalized is a package's name as it is compared (PEP 503).
func normalized(name string) string {
	return strings.ToLower(separators.ReplaceAllString(name, "-"))
}
