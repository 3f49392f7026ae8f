"""What all our dynamic providers have in common."""

from __future__ import annotations

from pulumi import dynamic


class Provider(dynamic.ResourceProvider):
    """Base of the providers. No instance state: an instance is pickled by reference to its class."""

    # The pickle is nothing but a class name, so hiding it would only add noise to every diff.
    serialize_as_secret_always: bool = False
