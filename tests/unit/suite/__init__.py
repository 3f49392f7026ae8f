"""The test suite itself."""
