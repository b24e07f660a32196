"""``decide()`` over recorded traces in virtual time: the function that the controller calls, without a cluster."""
