"""Runs a part: fills topics on a broker of ours, has each side do its jobs in a process of its own, takes figures."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from bench import PROJECT
from bench.measure import Samples
from bench.process import rss_bytes
from bench.servers import OURS, THEIRS, start
from bench.spark.figures import (
    COMPARED_SIZES,
    EXACTLY_ONCE,
    LATENCY,
    MEMORY,
    MEMORY_HEAP,
    READ_MEMORY_GIGABYTES,
    SEGMENTS,
    SEGMENTS_JOBS,
    jobs_of,
    name_of,
    records_of,
    segments_name_of,
)
from bench.spark.topics import create, fill, paced
from harness.other_sparks import CONNECTOR, jars_of, packages_of

PROGRAM: Final = PROJECT / "bench" / "generators" / "spark_job.py"
FORMATS: Final = {OURS: "tidelog", THEIRS: "kafka"}
# Java goes on compiling for several rounds, on either side: after two, what reads one column is a sixth slower than it
# will be.
WARM_UP_ROUNDS: Final = 5
JOB_SECONDS_MAX: Final = 1800
HEAP: Final = "1g"
WRITTEN_PART: Final = 4
EXACTLY_ONCE_BYTES: Final = 100
EXACTLY_ONCE_RECORDS: Final = 1_000_000
LATENCY_BYTES: Final = 100
LATENCY_PACE: Final = 1000
LATENCY_WARM_UP_SECONDS: Final = 15
LATENCY_SECONDS: Final = 30
MEMORY_RECORD_BYTES: Final = 1000
MEMORY_SAMPLE_SECONDS: Final = 0.1
MEGABYTE: Final = 1_000_000


def run_part(name: str, rounds: int, folder: Path) -> Samples:
    """The figures of a part, on a broker that lives as long."""
    broker = start(OURS, folder / "broker", {"transaction.two.phase.commit.enable": "true"})
    try:
        servers = f"127.0.0.1:{broker.port}"
        if name == EXACTLY_ONCE:
            return _exactly_once(servers, rounds)
        if name == SEGMENTS:
            return _segments(servers, rounds)
        if name == LATENCY:
            return _latency(servers)
        if name == MEMORY:
            return _memory(servers)
        return _rates(servers, int(name), rounds)
    finally:
        broker.stop()


def _rates(servers: str, size: int, rounds: int) -> Samples:
    topic, records = f"records-{size}", records_of(size)
    fill(servers, topic, records, size)
    samples: Samples = {}
    for server, format_ in FORMATS.items():
        out = f"{topic}-{format_}"
        create(servers, out)
        reading = tuple(job for job in jobs_of(size) if job != "write")
        plan = {"servers": servers, "topic": topic, "out": out, "record_bytes": size, "rounds": rounds}
        told = _run(format_, {**plan, "records": records, "jobs": reading})
        written = records // WRITTEN_PART
        if "write" in jobs_of(size):
            told |= _run(format_, {**plan, "records": written, "jobs": ["write"]})
        for job, seconds in told.items():
            moved = written if job == "write" else records
            samples.setdefault(name_of(job, size), {})[server] = [moved / each for each in seconds]
    return samples


def _exactly_once(servers: str, rounds: int) -> Samples:
    """Ours both times: exactly once beside at least once."""
    fill(servers, "in", EXACTLY_ONCE_RECORDS, EXACTLY_ONCE_BYTES)
    create(servers, "out")
    plan = {"servers": servers, "topic": "in", "out": "out", "rounds": rounds}
    told = _run(FORMATS[OURS], {**plan, "jobs": ["at-least-once", "exactly-once"]})
    once, least = ([EXACTLY_ONCE_RECORDS / each for each in told[job]] for job in ("exactly-once", "at-least-once"))
    return {"spark.exactly-once": {OURS: once, THEIRS: least}}


def _segments(servers: str, rounds: int) -> Samples:
    """Ours both times: from the broker's files beside over the network."""
    samples: Samples = {}
    for size in COMPARED_SIZES:
        topic, records = f"segments-{size}", records_of(size)
        fill(servers, topic, records, size)
        jobs = [*SEGMENTS_JOBS, *(f"{job}-{SEGMENTS}" for job in SEGMENTS_JOBS)]
        told = _run(FORMATS[OURS], {"servers": servers, "topic": topic, "rounds": rounds, "jobs": jobs})
        for job in SEGMENTS_JOBS:
            columns = {OURS: told[f"{job}-{SEGMENTS}"], THEIRS: told[job]}
            rates = {column: [records / each for each in seconds] for column, seconds in columns.items()}
            samples[segments_name_of(job, size)] = rates
    return samples


def _latency(servers: str) -> Samples:
    create(servers, "paced")
    samples: Samples = {}
    plan = {"servers": servers, "topic": "paced", "rounds": 1, "warm_up_rounds": 0, "jobs": [LATENCY]}
    plan |= {"warm_up_seconds": LATENCY_WARM_UP_SECONDS, "seconds": LATENCY_SECONDS}
    for server, format_ in FORMATS.items():
        with paced(servers, "paced", LATENCY_PACE, LATENCY_BYTES):
            ages = _run(format_, plan)[LATENCY]
        percentiles = statistics.quantiles(ages, n=100)
        for percentile in (50, 99):
            samples.setdefault(f"spark.latency.p{percentile}", {})[server] = [percentiles[percentile - 1] * 1000]
    return samples


def _memory(servers: str) -> Samples:
    """Ours both times: a small topic beside a large one, with a small heap."""
    samples: Samples = {}
    for column, gigabytes in zip((THEIRS, OURS), READ_MEMORY_GIGABYTES, strict=True):
        topic = f"memory-{gigabytes}"
        fill(servers, topic, int(gigabytes * 1e9) // MEMORY_RECORD_BYTES, MEMORY_RECORD_BYTES)
        for job in ("batch", "stream"):
            plan = {"servers": servers, "topic": topic, "rounds": 1, "warm_up_rounds": 0, "jobs": [job]}
            most: dict[str, int] = {}
            _run(FORMATS[OURS], {**plan, "heap": MEMORY_HEAP}, most)
            for who in ("worker", "java"):
                samples.setdefault(f"spark.memory.{job}.{who}", {})[column] = [most[who] / MEGABYTE]
    return samples


def _run(format_: str, plan: Mapping[str, Any], most: dict[str, int] | None = None) -> dict[str, list[float]]:
    """What the program says; into `most` the largest resident memory of Java and of any Python process of Spark's."""
    environment = dict(os.environ, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    # Packages are installed compiled: Python processes that may not keep what they compile would do it all again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if format_ == FORMATS[THEIRS]:
        environment["PYTHONPATH"] = packages_of(CONNECTOR)
    with tempfile.TemporaryDirectory() as folder:
        whole = {"warm_up_rounds": WARM_UP_ROUNDS, "heap": HEAP, **plan}
        whole |= {"format": format_, "jars": jars_of(CONNECTOR), "folder": folder}
        running = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(whole)],
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with _watched(running.pid, most):
            said, complaints = running.communicate(timeout=JOB_SECONDS_MAX)
    if running.returncode:
        raise RuntimeError(f"The job with {format_} failed:\n{said}\n{complaints[-5000:]}")
    told: dict[str, list[float]] = json.loads(said.strip().splitlines()[-1])
    return told


@contextmanager
def _watched(pid: int, most: dict[str, int] | None) -> Iterator[None]:
    if most is None:
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(MEMORY_SAMPLE_SECONDS):
            for process, name in _descendants(pid):
                who = "java" if name == "java" else "worker"
                with suppress(OSError, RuntimeError):  # It has ended meanwhile.
                    most[who] = max(most.get(who, 0), rss_bytes(process))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _descendants(pid: int) -> Iterator[tuple[int, str]]:
    """Processes that a process started, itself not, with their names."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            number, text = int(folder.name), (folder / "stat").read_text()
            name = text[text.index("(") + 1 : text.rindex(")")]
            parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append((number, name))
    waiting = [pid]
    while waiting:
        for child in parents.get(waiting.pop(), ()):
            waiting.append(child[0])
            yield child
