"""cffi makes this module from csrc/*.h (controlplane/build_native.py)."""

from typing import Any

# The stubs for cffi do not know a compiled module's types or constants.
ffi: Any
lib: Any
