"""The one family of errors that users of the package meet."""


class NoclobberError(Exception):
    """Says what failed, and what to do next."""
