"""Process 1 of a machine; see __main__.py."""
