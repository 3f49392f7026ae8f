"""The arbiter: agents that fail over by themselves, with a Lease that says who may take writes (ADR 0120).

`rules` decides (pure), `primacy` is what it is carried out by; `fence` and the loop in start.sh see to it that a server
doesn't take writes for longer than the Lease is sure to be its own. Nothing is imported here (ADR 0051).
"""
