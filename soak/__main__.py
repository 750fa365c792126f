"""`python -m soak run` lets clients and faults loose on a cluster; `python -m soak check FILE…` judges a history;
`python -m soak spark` kills everyone in a Spark pipeline and looks whether each record came out once;
`python -m soak disks` looks what syncs are worth while file systems are shut down."""

from __future__ import annotations

import argparse
import signal
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
    fire = commands.add_parser("spark", help="kill executors, workers, drivers and the broker of a Spark pipeline")
    fire.add_argument("--records", type=int, default=1_000_000)
    fire.add_argument("--route", choices=("topic", "parquet"), action="append", help="where to; both unless told")
    for victim, count in (("executors", 10), ("workers", 1), ("drivers", 5), ("brokers", 3)):
        fire.add_argument(f"--{victim}", type=int, default=count, help=f"how many are killed ({count})")
    fire.add_argument("--seed", type=int, default=1)
    fire.add_argument(
        "--folder", type=Path, help="keep everything in this folder; a run that was cut off goes on in it"
    )
    disks = commands.add_parser("disks", help="count syncs that lie while their file system is shut down; needs root")
    disks.add_argument("--kind", choices=("ext4", "xfs"), action="append", help="which file system; both unless told")
    disks.add_argument("--cuts", type=int, default=100)
    disks.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if options.command == "disks":
        return cut_disks(options)
    if options.command == "spark":
        return under_fire(options)
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
        plan = Plan(endless(options.seed), options.minutes * 60, per_second=options.rate)
        outcome = run(cluster, plan, folder, lambda sentence: print(sentence, flush=True))
    print(f"{len(outcome.faults)} faults.")
    for place in outcome.different:
        print(f"{place}: the replicas do not hold the same bytes")
    return report(outcome.verdict) or int(bool(outcome.different))


def cut_disks(options: argparse.Namespace) -> int:
    """File systems that are shut down under writers; 0 when nothing is gone that was synced before."""
    from soak.disks import cut_often

    failed = 0
    for kind in options.kind or ("ext4", "xfs"):
        with tempfile.TemporaryDirectory(prefix="tidelog-soak-") as folder:
            lost = cut_often(kind, options.cuts, Path(folder), options.seed)
        print(
            f"{kind}: of {options.cuts} cuts {lost.under_way} took bytes whose sync was under way and returned "
            f"success, {lost.synced_before} such that were synced before.",
            flush=True,
        )
        failed |= lost.synced_before > 0
    return int(failed)


def under_fire(options: argparse.Namespace) -> int:
    """Pipelines on a Spark cluster under fire; 0 when each record came out once."""
    from harness.tidelog_server import tidelog_server
    from soak.spark import BROKER_SETTINGS, WORKER_MEMORY, Route, SparkPlan, SparkSoak
    from soak.spark_faults import SparkFaults
    from tidelog.spark.standalone import StandaloneCluster

    # Whoever stops it gets all that it started stopped, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    faults = SparkFaults(options.executors, options.workers, options.drivers, options.brokers)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tidelog-soak-") as temporary:
        folder = (options.folder or Path(temporary)).absolute()
        broker = tidelog_server(folder / "broker", BROKER_SETTINGS)
        broker.start()
        try:
            with StandaloneCluster(folder / "spark", memory=WORKER_MEMORY) as cluster:
                for route in options.route or ("topic", "parquet"):
                    plan = SparkPlan(Route(route), options.records, faults, options.seed)
                    print(f"To {route}: {plan.records:,} records, {len(faults)} faults, seed {plan.seed}.", flush=True)
                    soak = SparkSoak(broker, cluster, folder / route, plan, lambda line: print(line, flush=True))
                    outcome = soak.run()
                    print(outcome, flush=True)
                    failed += not outcome.is_exactly_once
        finally:
            broker.stop()
    print("Each record came out once." if not failed else "The promise was broken.")
    return int(failed > 0)


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
