"""Volcano's own end-to-end suite, run against Muster. Opt-in: it is fetched and built by hand (``__main__``)."""
