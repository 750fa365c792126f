"""Our broker with a sampling profiler inside: a timer that counts CPU time, so that waiting is not seen.

Run by `bench/profiles.py` as `python -m bench.profiled_server PROPERTIES OUTPUT`.

SIGUSR1 forgets what was sampled so far; at the end the samples are written as JSON.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

# The kernel looks at CPU timers on its own ticks, so that samples come at most that often (250 a second, usually).
INTERVAL_SECONDS: Final = 0.001

samples: Counter[tuple[str, str]] = Counter()


def sample(_: int, frame: FrameType | None) -> None:
    if frame is None:
        return
    if frame.f_lineno == frame.f_code.co_firstlineno and frame.f_back is not None:
        # Python takes signals when a function begins: the time went by in whoever called it.
        frame = frame.f_back
    samples[frame.f_code.co_filename, frame.f_code.co_name] += 1


def forget(_: int, __: FrameType | None) -> None:
    samples.clear()


def main() -> None:
    from tidelog.cli.main import main as tidelog

    properties, output = sys.argv[1:]
    signal.signal(signal.SIGPROF, sample)
    signal.signal(signal.SIGUSR1, forget)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)
    sys.argv = ["tidelog", "server-start", properties]
    try:
        tidelog()  # Leaves by SystemExit.
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        rows = [[file, function, count] for (file, function), count in samples.most_common()]
        Path(output).write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
