"""``decide()`` over recorded traces in virtual time: the very function that the controller calls, and no cluster."""
