"""The documentation as a site, of one version beside others."""
