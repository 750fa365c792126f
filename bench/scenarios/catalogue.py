"""All scenarios, in the order in which they run."""

from __future__ import annotations

from typing import Final

from bench.scenarios import Scenario
from bench.scenarios.clients import PERF_TOOLS, PYTHON_CLIENTS
from bench.scenarios.cluster import CLUSTER
from bench.scenarios.footprint import FOOTPRINT
from bench.scenarios.groups import GROUPS_SCENARIO
from bench.scenarios.java import JAVA_PRODUCE
from bench.scenarios.latency import LATENCY
from bench.scenarios.librdkafka import LIBRDKAFKA, LIBRDKAFKA_SMALL
from bench.scenarios.log_life import COMPACTION, LOOKUP, RECOVERY
from bench.scenarios.pipelined import LARGE_PRODUCE, SMALL_PRODUCE, SYNCED_PRODUCE
from bench.scenarios.scaling import SCALING
from bench.scenarios.transactions import TRANSACTIONS_SCENARIO

SCENARIOS: Final[tuple[Scenario, ...]] = (
    SMALL_PRODUCE,
    JAVA_PRODUCE,
    LARGE_PRODUCE,
    LIBRDKAFKA,
    LIBRDKAFKA_SMALL,
    LATENCY,
    SYNCED_PRODUCE,
    PYTHON_CLIENTS,
    PERF_TOOLS,
    SCALING,
    RECOVERY,
    COMPACTION,
    LOOKUP,
    GROUPS_SCENARIO,
    TRANSACTIONS_SCENARIO,
    CLUSTER,
    # Last: the memory is that after all the load.
    FOOTPRINT,
)
