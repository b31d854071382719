"""noclobber: a file may be replaced only by someone who has seen what the
replacement destroys.

For harnesses: `Session` says what an agent was shown and asks what it may
replace. Nothing is loaded before it is used.
"""

TYPE_CHECKING = False  # as in typing, which takes 25 modules to load
if TYPE_CHECKING:
    from noclobber.api import Session, Verdict
    from noclobber.errors import NoclobberError
    from noclobber.receipts import Unseen

__version__ = "0.1.0"

__all__ = ["NoclobberError", "Session", "Unseen", "Verdict", "__version__"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from noclobber import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
