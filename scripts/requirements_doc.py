"""Writes docs/requirements.md: each requirement, and the tests that prove it, as their `req` markers say.

`make docs` runs it. With --check it writes nothing and ends with 1 when the document is out of date.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

PROJECT: Final = Path(__file__).resolve().parents[1]
REQUIREMENTS: Final = PROJECT / "tests/data/requirements.md"
DOCUMENT: Final = PROJECT / "docs/requirements.md"
SHOWN_PER_REQUIREMENT_MAX: Final = 4
SAID_SHOWN_MAX: Final = 4000
REQUIREMENT: Final = re.compile(r"- \*\*(?P<id>[A-Z]\d*)\*\* (?P<what>.*)")
SOURCE: Final = re.compile(r" — (?P<source>(?:\d{3}|also ).*)$")


@dataclass(frozen=True, slots=True)
class Requirement:
    id: str
    section: str
    what: str
    source: str


class MarkedTests:
    """A pytest plugin that keeps, for each requirement, the tests that name it."""

    def __init__(self) -> None:
        self.proving: dict[str, set[tuple[str, str]]] = defaultdict(set)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            file, _, name = item.nodeid.partition("::")
            for mark in item.iter_markers("req"):
                for requirement_id in mark.args:
                    self.proving[requirement_id].add((file, name.partition("[")[0]))


def requirements() -> Iterator[Requirement]:
    section = ""
    for line in REQUIREMENTS.read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif found := REQUIREMENT.fullmatch(line):
            source = SOURCE.search(found["what"])
            what = found["what"][: source.start()] if source else found["what"]
            yield Requirement(found["id"], section, what, source["source"] if source else "")


def collect() -> dict[str, set[tuple[str, str]]]:
    """Let pytest find the tests as it would for a run, and run none of them."""
    marked = MarkedTests()
    arguments = ["--collect-only", "--quiet", "-p", "no:cacheprovider", f"--rootdir={PROJECT}", str(PROJECT / "tests")]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main(arguments, plugins=[marked])
    if code != pytest.ExitCode.OK:
        raise SystemExit(f"The tests cannot be collected:\n{said.getvalue()[-SAID_SHOWN_MAX:]}")
    return marked.proving


def document() -> str:
    wanted = list(requirements())
    proving = collect()
    unknown = sorted(set(proving) - {requirement.id for requirement in wanted})
    if unknown:
        raise SystemExit(f"Tests name requirements that do not exist: {', '.join(unknown)}")
    proven = sum(1 for requirement in wanted if proving[requirement.id])
    tests = set().union(*proving.values())
    lines = [
        "# What is asked for, and what proves it",
        "",
        "Made by `make docs` from [the list](../tests/data/requirements.md) and the tests' `req` markers; do not edit.",
        f"**{proven} of {len(wanted)}** are proven so far, by {len(tests)} tests.",
    ]
    section = ""
    for requirement in wanted:
        if requirement.section != section:
            section = requirement.section
            lines += ["", f"## {section}", "", "| id | what | note | proven by |", "|---|---|---|---|"]
        proof = _proof(sorted(proving[requirement.id]))
        what = requirement.what.replace("|", "\\|")
        lines.append(f"| {requirement.id} | {what} | {requirement.source} | {proof} |")
    return "\n".join(lines) + "\n"


def _proof(tests: list[tuple[str, str]]) -> str:
    """The facts that the tests state, each with links to the files that prove it."""
    if not tests:
        return "*not yet*"
    files_of: dict[str, list[str]] = defaultdict(list)
    for file, name in tests:
        fact = name.rpartition("::")[2].removeprefix("test_").replace("_", " ")
        files_of[fact].append(f"[{Path(file).stem.removeprefix('test_')}](../{file})")
    shown = [f"{fact} ({', '.join(files)})" for fact, files in files_of.items()]
    more = len(shown) - SHOWN_PER_REQUIREMENT_MAX
    return " · ".join(shown[:SHOWN_PER_REQUIREMENT_MAX]) + (f" · and {more} more" if more > 0 else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 when it is out of date")
    check: bool = parser.parse_args().check
    text = document()
    if check:
        if DOCUMENT.exists() and DOCUMENT.read_text() == text:
            return 0
        print(f"{DOCUMENT.relative_to(PROJECT)} is out of date: run `make docs`.", file=sys.stderr)
        return 1
    DOCUMENT.write_text(text)
    print(f"Wrote {DOCUMENT.relative_to(PROJECT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
