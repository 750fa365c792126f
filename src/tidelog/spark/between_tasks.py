"""What a Python process of Spark's does between two tasks, made short; whoever reads or writes in a task calls it."""

from __future__ import annotations

import gc

_is_settled = False


def settle() -> None:
    """Leave what is loaded by now to itself: modules stay as long as the process does.

    Spark collects garbage after each task, and looks at every object of every module for it: for a task of half a
    million records that is a quarter of what all of its Python takes. Once for each process, so that what later tasks
    leave behind is still found.
    """
    global _is_settled
    if not _is_settled:
        _is_settled = True
        gc.freeze()
