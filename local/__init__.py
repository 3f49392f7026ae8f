"""A real Kubernetes and a real Pulumi on one machine, for development, tests and CI.

Nothing of the product imports this package, and it imports nothing of the product: whoever has `pulumi` and a
kubeconfig never needs it. `tools` provides the programs, `images` the container images, `packages` what comes from
the distribution, `cluster` the nodes; `python -m local` is the command line for all of them.
"""
