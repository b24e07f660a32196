"""The benchmark behind ``make bench``: Muster on the real control plane, beside no admission at all."""
