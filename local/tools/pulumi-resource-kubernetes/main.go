// Command pulumi-resource-kubernetes is Pulumi's Kubernetes provider.
//
// The provider's own main package embeds two generated files that its published module leaves beside it, so
// that it can't be built from the module alone. The platform's build copies both here first (see local/tools.py).
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var terraformMapping []byte

func main() { provider.Serve("kubernetes", version.Version, schema, terraformMapping) }
