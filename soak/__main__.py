"""`python -m soak run` lets clients and faults loose on a cluster; `python -m soak check FILE…` judges a history."""

from __future__ import annotations

import argparse
import sys
import tempfile
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
    loose = commands.add_parser("run", help="let clients and faults loose on a cluster of three")
    loose.add_argument("--minutes", type=float, default=60.0)
    loose.add_argument("--seed", type=int, default=1)
    loose.add_argument("--rate", type=int, default=500, help="records a second of each producer")
    loose.add_argument("--history", type=Path, help="keep the history in this folder")
    options = parser.parse_args(arguments)
    if options.command == "check":
        return report(check(read_history(options.files)))
    return soak(options)


def soak(options: argparse.Namespace) -> int:
    """A long run; 0 when nothing was found."""
    from soak.run import Plan, run
    from soak.weather import endless
    from tidelog.testing.cluster import Cluster

    print(f"Seed {options.seed}, {options.minutes:g} minutes.", flush=True)
    with Cluster(3, cut_clients=True) as cluster, tempfile.TemporaryDirectory(prefix="tidelog-soak-") as temporary:
        folder = options.history or Path(temporary)
        plan = Plan(endless(options.seed), options.minutes * 60, options.rate)
        outcome = run(cluster, plan, folder, lambda sentence: print(sentence, flush=True))
    print(f"{len(outcome.faults)} faults.")
    for place in outcome.different:
        print(f"{place}: the replicas do not hold the same bytes")
    return report(outcome.verdict) or int(bool(outcome.different))


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
