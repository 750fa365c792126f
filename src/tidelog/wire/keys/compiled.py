"""Whether a compiled kernel is there that fits this package."""

from __future__ import annotations

from typing import Final

from tidelog.wire.keys import kernel

KERNEL_REVISION: Final = 1
COMPILED: Final = kernel.COMPILED and getattr(kernel, "REVISION", None) == KERNEL_REVISION
