"""A window of measurement: the clock, the broker's CPU and our own, taken at both ends."""

from __future__ import annotations

import time

from bench.process import CpuTime, cpu_time


class Window:
    def __init__(self, broker_pid: int) -> None:
        self._pid = broker_pid
        self.began = 0.0
        self._cpu_began = CpuTime(0, 0)
        self._own_began = 0.0

    def open(self) -> None:
        self._own_began = time.process_time()
        self._cpu_began = cpu_time(self._pid)
        self.began = time.perf_counter()

    def close(self) -> dict[str, float]:
        """The fields that every result has."""
        seconds = time.perf_counter() - self.began
        cpu = cpu_time(self._pid).since(self._cpu_began)
        return {
            "seconds": seconds,
            "broker_user_seconds": cpu.user,
            "broker_system_seconds": cpu.system,
            "generator_cpu_seconds": time.process_time() - self._own_began,
        }
