"""``make demo``: the whole product on a local control plane, with examples that play against one another."""
