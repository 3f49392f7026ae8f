"""What Sentinels monitor: observe, plan (pure), apply, converge, report for one monitored name.

A set of Sentinels watches the primary of one dataset under one name, and the servers that follow it. Which server is
the primary is theirs to decide, and the servers'; this package makes all of them say the same. Standard library and
valkey-py only.
"""
