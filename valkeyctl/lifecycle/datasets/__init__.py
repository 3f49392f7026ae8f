"""What the dynamic resource `Dataset` does: one dataset of a primary and its replicas, watched by Sentinels or not."""
