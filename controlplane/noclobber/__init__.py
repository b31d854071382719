"""noclobber: a file may be replaced only by someone who has seen what the
replacement destroys."""

__version__ = "0.1.0"
