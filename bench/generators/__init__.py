"""Programs that put load on a broker, each a process of its own, so that nothing else in the benchmark slows it down.

Each takes its load as JSON and prints what it measured as JSON. They know one broker by its port and never whose it is.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final, TypeVar

import msgspec

from bench import PROJECT
from bench.process import CpuTime

GENERATOR_SECONDS_MAX: Final = 300


class Measured(msgspec.Struct, frozen=True):
    """What every generator says about its window of measurement."""

    seconds: float
    broker_user_seconds: float
    broker_system_seconds: float
    generator_cpu_seconds: float

    @property
    def broker_cpu(self) -> CpuTime:
        return CpuTime(self.broker_user_seconds, self.broker_system_seconds)

    @property
    def broker_cpu_seconds(self) -> float:
        return self.broker_user_seconds + self.broker_system_seconds


L = TypeVar("L", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)


def run_generator(module: str, load: msgspec.Struct, result: type[R]) -> R:
    """Run one to its end."""
    done = subprocess.run(
        [sys.executable, "-m", f"bench.generators.{module}", msgspec.json.encode(load).decode()],
        cwd=PROJECT,
        capture_output=True,
        timeout=GENERATOR_SECONDS_MAX,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the generator {module} failed:\n{done.stderr.decode(errors='replace')}")
    return msgspec.json.decode(done.stdout, type=result)


def load_from_arguments(load: type[L]) -> L:
    return msgspec.json.decode(sys.argv[1], type=load)


def print_result(result: msgspec.Struct) -> None:
    sys.stdout.write(msgspec.json.encode(result).decode())
