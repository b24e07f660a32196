"""The node agent: reads the accelerators of one node and reports them, and their health, to the API server."""
