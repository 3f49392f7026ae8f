"""What the end-to-end tests share: real pulumi, a real Kubernetes, a look at Valkey that owes nothing to the product.

`environment` finds the tools, `kube` speaks with the API server, `program` lays a project out and runs pulumi on it,
`events` reads what pulumi tells while it works, `probe` asks every Valkey node and judges, `client` reads and writes
from inside the cluster, `leaks` looks for secrets, `processes` reads /proc, `sandbox` gives a test a namespace and a
backend of its own and cleans up after it.
"""
