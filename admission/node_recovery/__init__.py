"""How nodes with faulty accelerators, or nodes that kill pods, come back into service. Pure."""
