"""``make demo``: the whole product on a local control plane, with example workloads that compete for its GPUs."""
