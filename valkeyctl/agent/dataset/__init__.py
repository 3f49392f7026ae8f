"""What the agent of a dataset's member (`replica`, `failover`) does otherwise than that of a cluster's.

Its server never starts writable by itself, but where it is sure who is the primary: whoever decides that (`deciding`)
also says so at the start. Nothing heavy is imported here (ADR 0051).
"""
