"""Compiles the kernels of `wire/columns`, `wire/keys` and of records when the package is installed or a wheel is made.

Where there is no C compiler, or TIDELOG_PURE is set, nothing is compiled: numpy and Python then do the same, slower.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path("src")
# Compiled modules, and what they are made of. Each has its types in a .pxd of its own name.
KERNELS = {
    "tidelog.wire.columns.kernel": "tidelog/wire/columns/kernel.py",
    "tidelog.wire.keys.kernel": "tidelog/wire/keys/kernel.py",
    "tidelog.wire.record_walk_compiled": "tidelog/wire/record_walk.py",
}


class CompiledKernels(BuildHookInterface):
    """Puts the compiled modules beside their sources."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or os.environ.get("TIDELOG_PURE"):
            return
        try:
            compile_kernels(Path(self.root))
        except Exception as problem:  # No compiler, no headers: each platform has its own words for it.
            self.app.display_warning(f"The kernels were not compiled: {problem}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for name in KERNELS:
            path = SOURCES.joinpath(*name.split(".")).as_posix()
            build_data["artifacts"] += [f"{path}.*.so", f"{path}.*.pyd"]


def compile_kernels(root: Path) -> None:
    """Compile each kernel, typed by its .pxd, into the source tree."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    here = Path.cwd()
    os.chdir(root)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            extensions = [
                Extension(name, [str(SOURCES / source)], extra_compile_args=[] if os.name == "nt" else ["-O3"])
                for name, source in KERNELS.items()
            ]
            modules = cythonize(extensions, build_dir=scratch, quiet=True, force=True)
            command = build_ext(Distribution({"ext_modules": modules, "package_dir": {"": str(SOURCES)}}))
            command.inplace = True
            command.build_temp = scratch
            command.ensure_finalized()
            command.run()
    finally:
        os.chdir(here)


if __name__ == "__main__":
    compile_kernels(Path(__file__).parent)
