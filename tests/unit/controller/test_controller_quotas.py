"""The command on client quotas. What it answers is what a real Apache Kafka 4.2 answered."""

from __future__ import annotations

import math

import pytest

from harness.controller_desk import Desk
from tidelog.controller.quotas import QuotaChange, alter_quotas, quota_entity
from tidelog.metadata.image import QuotaEntity
from tidelog.model.errors import ErrorCode

ANN = quota_entity([("user", "ann")])
APP = quota_entity([("client-id", "app")])
ADDRESS = quota_entity([("ip", "127.0.0.1")])
PRODUCE = "producer_byte_rate"


def altered(desk: Desk, entity: QuotaEntity, *changes: tuple[str, float | None], validate_only: bool = False) -> str:
    """The message of the error, empty when there is none."""
    wanted = [QuotaChange(*change) for change in changes]
    (outcome,) = desk.run(alter_quotas, [(entity, wanted)], validate_only=validate_only)
    if outcome.error is None:
        return ""
    assert outcome.error.code is ErrorCode.INVALID_REQUEST
    return outcome.error.message or "?"


def test_quotas_are_set_changed_and_removed() -> None:
    desk = Desk()

    assert altered(desk, ANN, (PRODUCE, 1000.0), ("request_percentage", 12.5)) == ""
    assert desk.image.quotas == {ANN: {PRODUCE: 1000.0, "request_percentage": 12.5}}
    assert altered(desk, ANN, (PRODUCE, 2000.0000001), ("request_percentage", None)) == ""
    assert desk.image.quotas == {ANN: {PRODUCE: 2000.0}}
    assert altered(desk, ANN, (PRODUCE, None)) == ""
    assert desk.image.quotas == {}


def test_users_clients_both_and_defaults_are_entities_of_their_own() -> None:
    desk = Desk()
    both = quota_entity([("user", "ann"), ("client-id", None)])
    for entity in (ANN, APP, both, quota_entity([("user", None)])):
        assert altered(desk, entity, (PRODUCE, 5.0)) == ""

    assert len(desk.image.quotas) == 4
    assert desk.image.quotas[quota_entity([("client-id", None), ("user", "ann")])] == {PRODUCE: 5.0}


def test_what_is_the_same_as_before_writes_no_record() -> None:
    desk = Desk()
    altered(desk, ANN, (PRODUCE, 1000.0))
    written = len(desk.log)

    assert altered(desk, ANN, (PRODUCE, 1000.0)) == ""
    assert altered(desk, APP, (PRODUCE, None)) == ""
    assert len(desk.log) == written


def test_changes_can_be_validated_only() -> None:
    desk = Desk()
    assert altered(desk, ANN, (PRODUCE, 1000.0), validate_only=True) == ""
    assert altered(desk, ANN, (PRODUCE, -1.0), validate_only=True) != ""
    assert desk.image.quotas == {}


@pytest.mark.parametrize(
    ("entity", "change", "message"),
    [
        (quota_entity([]), (PRODUCE, 1.0), "Invalid empty client quota entity"),
        (quota_entity([("user", "")]), (PRODUCE, 1.0), "Empty user not supported"),
        (quota_entity([("group", "x")]), (PRODUCE, 1.0), "Unhandled client quota entity type: group"),
        (ANN, ("nonsense", 1.0), "Invalid configuration key nonsense"),
        (ANN, ("connection_creation_rate", 1.0), "Invalid configuration key connection_creation_rate"),
        (ADDRESS, (PRODUCE, 1.0), f"Invalid configuration key {PRODUCE}"),
        (ANN, (PRODUCE, 0.0), f"Quota {PRODUCE} must be greater than 0"),
        (ANN, (PRODUCE, -1.0), f"Quota {PRODUCE} must be greater than 0"),
        (ANN, (PRODUCE, math.nan), f"Quota {PRODUCE} must be greater than 0"),
        (ANN, (PRODUCE, 10.5), f"{PRODUCE} cannot be a fractional value."),
        (ANN, (PRODUCE, 1e30), f"Proposed value for {PRODUCE} is too large for a LONG."),
        (ANN, (PRODUCE, math.inf), f"Proposed value for {PRODUCE} is too large for a LONG."),
        (
            quota_entity([("ip", "no.host")]),
            ("connection_creation_rate", 1.0),
            "no.host is not a valid IP or resolvable host.",
        ),
        (
            quota_entity([("ip", "127.0.0.1"), ("user", "ann")]),
            ("connection_creation_rate", 1.0),
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
    ],
)
def test_a_quota_that_cannot_be_is_refused(entity: QuotaEntity, change: tuple[str, float], message: str) -> None:
    desk = Desk()
    assert altered(desk, entity, change) == message
    assert desk.image.quotas == {}


def test_one_bad_entity_spoils_no_other_and_twice_the_same_is_refused() -> None:
    desk = Desk()
    good, bad = [QuotaChange(PRODUCE, 1.0)], [QuotaChange(PRODUCE, -1.0)]
    outcomes = desk.run(alter_quotas, [(ANN, good), (APP, bad)])

    assert [(outcome.entity, outcome.error is None) for outcome in outcomes] == [(ANN, True), (APP, False)]
    assert desk.image.quotas == {ANN: {PRODUCE: 1.0}}
    (twice,) = desk.run(alter_quotas, [(APP, good), (APP, good)])
    assert twice.error is not None
    assert twice.error.message == "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=app})"
