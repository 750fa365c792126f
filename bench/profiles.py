"""Where our broker's CPU time goes: samples of a loaded broker, sorted by what the code does for a request."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench import PROJECT
from bench.generators import run_generator
from bench.generators.pipelined_produce import Load, Produced
from bench.results import Profile, Share
from bench.scenarios.pipelined import LARGE_PRODUCE, SMALL_PRODUCE, PipelinedProduce
from bench.topics import topic_on
from harness.tidelog_server import tidelog_server

WARM_UP_SECONDS: Final = 1.0
REST: Final = "everything else"
# What a function does, by the end of its file's name and its own name ("" is any); the first that fits counts.
PARTS: Final[tuple[tuple[str, str, str], ...]] = (
    ("broker/connection.py", "on_readable", "receive from the socket"),
    ("broker/connection.py", "_read_body", "receive from the socket"),
    ("broker/receive.py", "", "receive from the socket"),
    ("broker/connection.py", "_consume", "cut the bytes into frames"),
    ("broker/connection.py", "answered", "queue the answer"),
    ("broker/connection.py", "_queue", "queue the answer"),
    ("broker/connection.py", "", "send the answers"),
    ("wire/frames.py", "parse_request_header", "decode the request"),
    ("<read ProduceRequest", "", "decode the request"),
    ("wire/frames.py", "encode_response", "encode the answer"),
    ("<respond ProduceResponse", "", "encode the answer"),
    ("broker/call.py", "", "encode the answer"),
    ("wire/produce_run.py", "", "know the requests again, and check their CRC-32C"),
    ("wire/produce_form.py", "", "encode the answer"),
    ("broker/repeated_produce.py", "stage", "know the requests again, and check their CRC-32C"),
    ("broker/repeated_produce.py", "_stage_part", "know the requests again, and check their CRC-32C"),
    ("broker/repeated_produce.py", "", "encode the answer"),
    ("broker/dispatch.py", "", "dispatch and count"),
    ("broker/turn.py", "", "the turn: collect, then write and answer"),
    ("handlers/produce.py", "", "produce handler"),
    ("/uuid.py", "", "find the topic by its id"),
    ("wire/batch.py", "check_produced_batch", "check the batch, with its CRC-32C"),
    ("wire/crc.py", "", "check the batch, with its CRC-32C"),
    ("env/files.py", "write", "write to the log file"),
    ("wire/batch.py", "", "give the batch its offset"),
    ("wire/batch_run.py", "", "give the batch its offset"),
    ("replica/leader.py", "", "give the batch its offset"),
    ("log/log_end.py", "", "give the batch its offset"),
    ("log/producers.py", "", "give the batch its offset"),
    ("log/segment.py", "stage", "give the batch its offset"),
    ("log/segment.py", "stage_run", "give the batch its offset"),
    ("log/segment.py", "write_staged", "give the batch its offset"),
    ("/tidelog/log/", "", "keep the indexes"),
    ("asyncio/", "", "event loop"),
    ("uvloop/", "", "event loop"),
)


def take_profiles(folder: Path, seconds: float) -> list[Profile]:
    return [_profile(folder, scenario, seconds) for scenario in (SMALL_PRODUCE, LARGE_PRODUCE)]


def _profile(folder: Path, scenario: PipelinedProduce, seconds: float) -> Profile:
    shutil.rmtree(folder, ignore_errors=True)
    output = folder.with_suffix(".json")
    server = tidelog_server(folder)
    properties = server.launch.command[-1]
    command = [sys.executable, "-m", "bench.profiled_server", properties, str(output)]
    server.launch = replace(server.launch, command=["env", f"PYTHONPATH={PROJECT}", *command])
    server.start()
    try:
        with topic_on(server, scenario.name) as topic, ThreadPoolExecutor(1) as pool:
            load = Load(
                server.port,
                server.pid,
                topic,
                scenario.connections,
                scenario.in_flight,
                seconds,
                WARM_UP_SECONDS,
                scenario.record_bytes,
                scenario.records_in_batch,
            )
            running = pool.submit(run_generator, "pipelined_produce", load, Produced)
            time.sleep(WARM_UP_SECONDS)
            os.kill(server.pid, signal.SIGUSR1)
            produced = running.result()
    finally:
        server.stop()
    counted = _by_part(json.loads(output.read_text()))
    total = counted.total()
    return Profile(
        scenario=scenario.name,
        title=scenario.title,
        samples=total,
        cpu_us_per_request=produced.cpu_us_per_request,
        system_percent=100 * produced.broker_system_seconds / produced.broker_cpu_seconds,
        shares=[Share(part, 100 * count / total) for part, count in counted.most_common()],
    )


def _by_part(rows: list[tuple[str, str, int]]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for file, function, count in rows:
        counted[_part(file, function)] += count
    return counted


def _part(file: str, function: str) -> str:
    for piece, name, part in PARTS:
        if piece in file and name in ("", function):
            return part
    return REST
