"""Build `noclobber._native`: the wire's structs and the C units, for Python.

A struct described twice drifts; here cffi (API mode) reads the headers of
csrc/ themselves, and the C compiler checks every field. The units are linked
in as make compiled them for the shim, so that what pytest calls is what runs.

    python controlplane/build_native.py OUTPUT OBJECT...     (the Makefile's)
    python controlplane/build_native.py --name               prints the file's name

The compiler is $CC (default `cc`), with $CFLAGS and $LDFLAGS.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

HEADERS = (
    "protocol.h",
    "coverage.h",
    "fdtable.h",
    "paths.h",
    "readings.h",
    "receive.h",
    "program.h",
    "attest.h",
)
CSRC = Path(__file__).resolve().parent.parent / "csrc"

INLINE = re.compile(r"^static inline\b.*?^}\n", re.M | re.S)
GUARD = re.compile(r"^#(?:ifndef|endif|include)\b.*$|^#define +\w+_H$", re.M)
MACRO = re.compile(r"^#define +\w+[ (](?:[^\n]*\\\n)*[^\n]*$", re.M)
NUMBER = re.compile(r"#define +\w+ +\(?-?(?:0x[0-9a-fA-F]+|\d+)\)?\s*(?:/\*|$)")


def is_abi3() -> bool:
    """Whether this Python takes one file for all its versions (PEP 384)."""
    odd = ("Py_GIL_DISABLED", "Py_DEBUG", "Py_TRACE_REFS")
    cpython = sys.implementation.name == "cpython"
    return cpython and not any(sysconfig.get_config_var(name) for name in odd)


def file_name() -> str:
    """The extension module's file name for this Python."""
    suffix = ".abi3.so" if is_abi3() else sysconfig.get_config_var("EXT_SUFFIX")
    return f"_native{suffix}"


def declarations(header: str) -> str:
    """A header's text as cffi's parser wants it: no guards, no inline bodies,
    and of the macros only those that are a plain number."""
    text = GUARD.sub("", INLINE.sub("", header))
    return MACRO.sub(lambda m: m[0] if NUMBER.match(m[0]) else "", text)


def emit(target: Path) -> None:
    """Write the extension module's C to `target`."""
    from cffi import FFI

    ffi = FFI()
    for name in HEADERS:
        ffi.cdef(declarations((CSRC / name).read_text()))
    includes = "\n".join(f'#include "{name}"' for name in HEADERS)
    ffi.set_source("noclobber._native", includes)
    ffi.emit_c_code(str(target))


def compile_module(output: Path, objects: list[str]) -> None:
    """Compile and link `output`. Raises CalledProcessError."""
    source = output.with_name("_native.c")
    source.parent.mkdir(parents=True, exist_ok=True)
    emit(source)
    flags = shlex.split(os.environ.get("CFLAGS", "-O2"))
    undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    command = [
        *shlex.split(os.environ.get("CC", "cc")),
        *flags,
        "-w",  # cffi's output is not ours to clean; the units were compiled strictly
        *("-shared", "-fPIC", "-pthread", *undefined),
        *("-I", str(CSRC), "-I", sysconfig.get_path("include")),
        *("-I", sysconfig.get_path("platinclude")),
        *(str(source), *objects, "-o", f"{output}.new"),
        *shlex.split(os.environ.get("LDFLAGS", "")),
    ]
    subprocess.run(command, check=True)
    # A process may have the old one mapped: never write into it.
    Path(f"{output}.new").replace(output)


if __name__ == "__main__":
    if sys.argv[1:] == ["--name"]:
        print(file_name())
    else:
        compile_module(Path(sys.argv[1]), sys.argv[2:])
