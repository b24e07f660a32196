"""Why the image cannot be built."""


class ImageError(Exception):
    """One line or two for the person who builds: what was found, what was expected, what to do."""
