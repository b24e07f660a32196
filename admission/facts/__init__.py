"""What the cluster shows, in domain terms: the output of translation, the input of intake and the world.

A fact is about one object at one resource version. Facts are compared with ``==``: an update that changes nothing
that matters is no change.
"""
