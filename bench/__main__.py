"""`python -m bench`: run the benchmark, print the table, write bench/results/latest.json and docs/benchmarks.md.

A full run takes its time: `--only NAME --save` measures a part and leaves the figures of the others as they were.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench import PROJECT, results
from bench.document import write_document
from bench.measure import Samples
from bench.plan import FULL, QUICK, Plan
from bench.profiles import take_profiles
from bench.report import print_table
from bench.runner import Runner
from bench.scenarios import Scenario
from bench.scenarios.catalogue import SCENARIOS
from bench.servers import OURS, THEIRS


def main() -> int:
    arguments = _arguments()
    console = Console()
    if arguments.list:
        for scenario in SCENARIOS:
            console.print(f"[bold]{scenario.name:18}[/bold] {scenario.title}", highlight=False)
        return 0
    if arguments.document:
        console.print(f"Written: {write_document(results.load())}")
        return 0
    plan = _plan(arguments)
    scenarios = _chosen(arguments.only)
    folder = arguments.data.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    machine = results.machine(folder)
    began = time.monotonic()
    try:
        taken, profiles = _run(console, plan, scenarios, folder, machine, arguments)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print_table(console, scenarios, {name: values for one in taken.values() for name, values in one.samples.items()})
    if not arguments.ours and (arguments.save or not (arguments.only or arguments.quick)):
        now_known = results.load().with_run(taken, profiles)
        results.save(now_known)
        console.print(f"Written: {results.LATEST.relative_to(PROJECT)}, {write_document(now_known)}")
    console.print(f"{time.monotonic() - began:.0f} s in all.")
    return 0


def _run(
    console: Console,
    plan: Plan,
    scenarios: list[Scenario],
    folder: Path,
    machine: results.Machine,
    arguments: argparse.Namespace,
) -> tuple[dict[str, results.Taken], list[results.Profile]]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # Twice a second is enough for people, and costs the brokers nothing worth counting.
    with Progress(*columns, console=console, refresh_per_second=2) as progress:
        task = progress.add_task("", total=None)

        def on_step(text: str) -> None:
            progress.update(task, description=text)

        def on_done() -> None:
            progress.advance(task)

        servers = (OURS,) if arguments.ours else (OURS, THEIRS)
        runner = Runner(plan, scenarios, folder, servers=servers, on_step=on_step, on_done=on_done)
        progress.update(task, total=runner.steps)
        samples = runner.run()
        profiles: list[results.Profile] = []
        if not arguments.only:
            on_step("profile of our broker")
            profiles = take_profiles(folder / "profile", plan.profile_seconds)
    name = "quick" if arguments.quick else "full"
    return {
        scenario.name: results.Taken(results.now(), name, plan.rounds, machine, _of(scenario, samples))
        for scenario in scenarios
    }, profiles


def _of(scenario: Scenario, samples: Samples) -> Samples:
    names = {metric.name for metric in scenario.metrics}
    names |= {end for metric in scenario.metrics if metric.has_interval for end in (metric.low, metric.high)}
    names |= {curve.point(size) for curve in scenario.curves for size in curve.sizes}
    return {name: values for name, values in samples.items() if name in names}


def _plan(arguments: argparse.Namespace) -> Plan:
    plan = QUICK if arguments.quick else FULL
    return dataclasses.replace(plan, rounds=arguments.rounds) if arguments.rounds else plan


def _chosen(only: list[str]) -> list[Scenario]:
    names = [name for part in only for name in part.split(",")]
    known = {scenario.name for scenario in SCENARIOS}
    for name in names:
        if name not in known:
            raise SystemExit(f"There is no scenario {name!r}: {', '.join(sorted(known))}.")
    return [scenario for scenario in SCENARIOS if not names or scenario.name in names]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Ours beside Apache Kafka, in one run.")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this scenario; repeatable")
    parser.add_argument("--rounds", type=int, help="how often everything is measured; the median counts")
    parser.add_argument("--quick", action="store_true", help="a look in less than four minutes")
    parser.add_argument("--ours", action="store_true", help="our broker alone, without Apache Kafka")
    parser.add_argument(
        "--save", action="store_true", help="keep the figures, and show them in the document, even of a part"
    )
    parser.add_argument("--list", action="store_true", help="what there is to measure")
    parser.add_argument("--document", action="store_true", help="write the document again from the latest results")
    parser.add_argument(
        "--data",
        type=Path,
        default=PROJECT / ".cache" / "bench",
        help="where the brokers keep their data; emptied afterwards (default: %(default)s)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
