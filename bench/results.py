"""What was measured last: for each scenario where and when, and all samples; the profiles. Kept in
bench/results/latest.json. A run of some scenarios replaces those and leaves the others."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import confluent_kafka
import msgspec

from bench import PROJECT, RESULTS
from bench.measure import Samples
from harness.apache_kafka import jar_folder
from tidelog.model.version import __version__

LATEST: Final = RESULTS / "latest.json"


class Machine(msgspec.Struct, frozen=True):
    processor: str
    cores: int
    memory_gb: float
    kernel: str
    file_system: str
    python: str
    java: str
    apache_kafka: str
    librdkafka: str
    tidelog: str
    # Processes that wanted to run just before we began: above 0 somebody else was at work.
    load_before: float


class Share(msgspec.Struct, frozen=True):
    """A part of the broker's CPU time."""

    part: str
    percent: float


class Profile(msgspec.Struct, frozen=True):
    """Where the CPU time of our broker goes under one load."""

    scenario: str
    title: str
    samples: int
    cpu_us_per_request: float
    system_percent: float
    shares: list[Share]


class Taken(msgspec.Struct, frozen=True):
    """One scenario's figures."""

    taken_at: str
    plan: str
    rounds: int
    machine: Machine
    samples: Samples


class Results(msgspec.Struct, frozen=True):
    scenarios: dict[str, Taken] = {}
    profiles: list[Profile] = []

    @property
    def samples(self) -> Samples:
        """Of all scenarios together: no two have a metric of the same name."""
        return {name: values for taken in self.scenarios.values() for name, values in taken.samples.items()}

    def with_run(self, run: Mapping[str, Taken], profiles: list[Profile]) -> Results:
        return Results({**self.scenarios, **run}, profiles or self.profiles)


def machine(data_folder: Path) -> Machine:
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        kernel=platform.release(),
        file_system=_output("stat", "--file-system", "--format=%T", str(data_folder)),
        python=platform.python_version(),
        java=_java(),
        apache_kafka=next(jar_folder().glob("kafka-server-4*.jar")).stem.removeprefix("kafka-server-"),
        librdkafka=str(confluent_kafka.libversion()[0]),
        tidelog=f"{__version__} ({_output('git', '-C', str(PROJECT), 'rev-parse', '--short', 'HEAD')})",
        load_before=round(os.getloadavg()[0], 1),
    )


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def save(results: Results, path: Path = LATEST) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def load(path: Path = LATEST) -> Results:
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else Results()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _java() -> str:
    said = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    return said.partition('"')[2].partition('"')[0]


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()
