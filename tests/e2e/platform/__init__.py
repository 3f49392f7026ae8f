"""The local Kubernetes itself: what its nodes give to Pods, which faults it plays, and what it leaves behind."""
