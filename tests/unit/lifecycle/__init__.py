"""The dynamic resources: what they decide, and what they show."""
