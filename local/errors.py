"""What can go wrong on the local platform, told to a person.

LocalError                      what is wrong, where, and what to do; printed without a traceback
├── BuildError                  a tool or an image couldn't be built; names the log
└── PackagesMissingError        packages of the distribution are missing and couldn't be installed
"""


class LocalError(Exception):
    """An error whose text says what is wrong, where, and what to do."""


class BuildError(LocalError):
    """A tool or an image couldn't be built."""


class PackagesMissingError(LocalError):
    """Packages of the distribution are missing and couldn't be installed."""
