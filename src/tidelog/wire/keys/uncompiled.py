"""Stands for the module `cython` where `kernel.py` runs as it is and Cython is not installed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Final

compiled: Final = False
nogil: Final = nullcontext()
