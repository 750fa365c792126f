"""`python -m soak run` lets clients and faults loose on a cluster; `python -m soak check FILE…` judges a history."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from soak.checker import Verdict, check
from soak.history import read_history

SHOWN_MAX: Final = 50


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    judge = commands.add_parser("check", help="judge histories that generators wrote, together")
    judge.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    return report(check(read_history(options.files)))


def report(verdict: Verdict) -> int:
    """Print what was found; 0 when nothing was."""
    print(
        f"{verdict.sent:,} sent, {verdict.acknowledged:,} acknowledged, {verdict.failed:,} given up, "
        f"{verdict.in_the_log:,} in the log, {verdict.seen:,} read."
    )
    for violation, count in verdict.counted().items():
        print(f"{count:,} × {violation.value}")
    for finding in verdict.findings[:SHOWN_MAX]:
        print(f"  {finding}")
    if not verdict.findings:
        print("No promise was broken.")
    return int(bool(verdict.findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
