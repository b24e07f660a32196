"""What of the node agent talks to the API server: the client, watches, the reporter, the lease."""
