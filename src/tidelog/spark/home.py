"""A home for Spark from which its Python processes load PySpark as it is installed, compiled; `session.py` asks for it.

Spark puts the archive of sources that lies in its home before everything that is installed: each fresh interpreter, of
which every stream starts one, then compiles all of PySpark again, which takes longer than all else that it does.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark

# The archive is in here; nothing but interactive shells needs the rest of it.
LEFT_OUT: Final = "python"


def can_be_linked(master: str, environment: Mapping[str, str]) -> bool:
    """Whether nobody chose another Spark, and its Python processes run here, in the environment that has PySpark."""
    python = environment.get("PYSPARK_PYTHON", sys.executable)
    return master.startswith("local") and "SPARK_HOME" not in environment and python == sys.executable


def linked_home() -> str:
    """A folder of links to what PySpark installed; it is removed when this process ends."""
    installed = Path(pyspark.__file__).parent
    home = Path(tempfile.mkdtemp(prefix="tidelog-spark-home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for entry in installed.iterdir():
        if entry.name != LEFT_OUT and (entry.is_dir() or not entry.suffix):
            (home / entry.name).symlink_to(entry)
    return str(home)
