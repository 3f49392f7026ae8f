"""Real agents beside real servers, without Kubernetes."""
