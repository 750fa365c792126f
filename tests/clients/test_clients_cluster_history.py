"""Three real brokers, three minutes of faults, librdkafka's and Java's producers, and a checker that finds no promise
broken.

`make soak` runs the same for an hour, with all faults in an order that a seed decides.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from soak.run import Plan, run
from soak.weather import Kind, dense

import tidelog

SECONDS = 180.0


@pytest.mark.req("D19", "D20", "D21", "E3", "E5", "F8", "G1")
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_doubled_or_moved_whatever_befalls_the_brokers(tmp_path: Path) -> None:
    with tidelog.Cluster(3, cut_clients=True) as cluster:
        outcome = run(cluster, Plan(dense(), SECONDS, faults_min=len(Kind)), tmp_path / "history", print)

    assert [str(finding) for finding in outcome.verdict.findings] == []
    assert outcome.different == []
    assert outcome.verdict.failed == 0
    # It was a real test: all faults came, and much was written and read while they did.
    assert {fault.kind for _, fault, _ in outcome.faults} == set(Kind)
    assert outcome.verdict.acknowledged > 10_000
    assert outcome.verdict.seen > 3 * 10_000
