"""The agent's own port; the server's are in `dataplane.model`."""

AGENT_PORT = 9379
"""Probes of the kubelet and the talk between agents, over HTTP."""
