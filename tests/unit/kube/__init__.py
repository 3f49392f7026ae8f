"""What speaks with the API server, against an API server in this process."""
