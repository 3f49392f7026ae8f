"""The agent, without servers and without Kubernetes."""
