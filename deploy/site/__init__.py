"""The documentation as a site, of one version next to others."""
