"""What is measured with Spark, what is to be reached, and how it is kept: bench/results/spark.json, part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench import RESULTS
from bench.measure import Better, Metric

KEPT: Final = RESULTS / "spark.json"
# So that no figure is mostly that of starting: a topic has about as many bytes, and at most so many records.
TOPIC_BYTES: Final = 600_000_000
RECORDS_MAX: Final = 6_000_000
SIZES: Final = (100, 300, 1000, 3000)
# Where more than the curves is measured.
COMPARED_SIZES: Final = (100, 1000)
TARGETS: Final = {
    ("batch", 100): 2.5,
    ("batch", 1000): 2.0,
    ("value", 100): 5.0,
    ("stream", 100): 1.5,
    ("stream", 1000): 1.0,
    ("write", 100): 1.5,
    ("write", 1000): 1.5,
}
JOB_TITLES: Final = {
    "batch": "batch read",
    "value": "batch read, value only",
    "stream": "stream, until all is read",
    "write": "batch write",
}
SEGMENTS_JOBS: Final = ("batch", "value")
EXACTLY_ONCE_TARGET: Final = 0.8
EXACTLY_ONCE: Final = "exactly-once"
SEGMENTS: Final = "segments"
LATENCY: Final = "latency"
MEMORY: Final = "memory"
READ_MEMORY_GIGABYTES: Final = (0.25, 2.0)
MEMORY_HEAP: Final = "512m"


@dataclass(frozen=True, slots=True)
class Part:
    """What is measured at one go; as `bench.report` wants it."""

    name: str
    metrics: tuple[Metric, ...]
    curves: tuple[()] = ()
    title: str = ""


def jobs_of(size: int) -> tuple[str, ...]:
    return tuple(JOB_TITLES) if size in COMPARED_SIZES else ("batch", "stream")


def records_of(size: int) -> int:
    return min(RECORDS_MAX, TOPIC_BYTES // size)


def name_of(job: str, size: int) -> str:
    return f"spark.{job}.{size}"


def segments_name_of(job: str, size: int) -> str:
    return f"spark.segments.{job}.{size}"


def _metrics(size: int) -> tuple[Metric, ...]:
    return tuple(
        Metric(
            name_of(job, size),
            f"{JOB_TITLES[job]}, {size:,} B",
            "rows/s",
            Better.HIGHER,
            target=TARGETS.get((job, size)),
        )
        for job in jobs_of(size)
    )


PARTS: Final = {
    **{str(size): Part(str(size), _metrics(size)) for size in SIZES},
    EXACTLY_ONCE: Part(
        EXACTLY_ONCE,
        (
            Metric(
                "spark.exactly-once",
                "topic to topic, 100 B",
                "rows/s",
                Better.HIGHER,
                target=EXACTLY_ONCE_TARGET,
            ),
        ),
    ),
    SEGMENTS: Part(
        SEGMENTS,
        tuple(
            Metric(segments_name_of(job, size), f"{JOB_TITLES[job]}, {size:,} B", "rows/s", Better.HIGHER)
            for size in COMPARED_SIZES
            for job in SEGMENTS_JOBS
        ),
    ),
    LATENCY: Part(
        LATENCY,
        (
            Metric("spark.latency.p50", "stream end to end at 1,000 records a second, p50", "ms", Better.LOWER),
            Metric("spark.latency.p99", "stream end to end at 1,000 records a second, p99", "ms", Better.LOWER),
        ),
    ),
    MEMORY: Part(
        MEMORY,
        tuple(
            Metric(f"spark.memory.{job}.{who}", f"{JOB_TITLES[job]}: {title}", "MB", Better.LOWER)
            for job in ("batch", "stream")
            for who, title in (("worker", "the largest Python process"), ("java", "Java"))
        ),
    ),
}
