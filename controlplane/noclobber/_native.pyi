"""cffi makes this module from csrc/*.h (controlplane/build_native.py)."""

from cffi import FFI

ffi: FFI
lib: FFI.CData
