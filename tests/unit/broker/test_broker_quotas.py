"""Who is bound by which quota, and how long a client that used too much has to pause."""

from __future__ import annotations

import pytest

from tidelog.broker.quotas import METERS_KEPT_MAX, Bucket, Limit, Quotas, Rate, Windows
from tidelog.metadata.image import QuotaEntity

KEY = "producer_byte_rate"
WINDOWS = Windows(11, 1000)


def entity(**parts: str | None) -> QuotaEntity:
    return QuotaEntity(tuple(sorted((kind.replace("_", "-"), name) for kind, name in parts.items())))


def quotas_of(*entities: QuotaEntity) -> Quotas[Rate]:
    """Each entity has as its limit its place in the list, from 1 on."""
    quotas = Quotas(KEY, WINDOWS, Rate)
    quotas.apply({each: {KEY: float(number)} for number, each in enumerate(entities, 1)})
    return quotas


def bound(quotas: Quotas[Rate], user: str, client_id: str) -> float | None:
    limit = quotas.limit(user, client_id)
    return None if limit is None else limit.bound


MOST_EXACT_FIRST = [
    entity(user="ann", client_id="app"),
    entity(user="ann", client_id=None),
    entity(user="ann"),
    entity(user=None, client_id="app"),
    entity(user=None, client_id=None),
    entity(user=None),
    entity(client_id="app"),
    entity(client_id=None),
]


@pytest.mark.parametrize("missing", range(len(MOST_EXACT_FIRST)))
def test_the_most_exact_quota_counts(missing: int) -> None:
    quotas = quotas_of(*MOST_EXACT_FIRST[missing:])

    assert bound(quotas, "ann", "app") == 1.0


def test_a_quota_for_others_binds_nobody_else() -> None:
    quotas = quotas_of(entity(user="ann"), entity(client_id="app"), entity(ip="127.0.0.1"))

    assert bound(quotas, "ann", "anything") == 1.0
    assert bound(quotas, "bob", "app") == 2.0
    assert bound(quotas, "bob", "other") is None
    assert not Quotas(KEY, WINDOWS, Rate).active


def test_clients_of_a_user_share_its_rate_and_defaults_bind_each_alone() -> None:
    quotas = quotas_of(entity(user="ann"), entity(client_id=None))

    def rate(user: str, client_id: str) -> Rate:
        limit = quotas.limit(user, client_id)
        assert limit is not None
        return limit.meter

    assert rate("ann", "one") is rate("ann", "two")
    assert rate("bob", "one") is rate("cid", "one")
    assert rate("bob", "one") is not rate("bob", "two")


def test_a_changed_quota_keeps_what_was_counted() -> None:
    quotas = quotas_of(entity(client_id="app"))
    before = quotas.limit("", "app")
    quotas.apply({entity(client_id="app"): {KEY: 500.0}})
    after = quotas.limit("", "app")

    assert before is not None and after is not None
    assert after.meter is before.meter
    assert after.bound == 500.0
    quotas.apply({})
    assert quotas.limit("", "app") is None


def test_a_burst_within_the_windows_is_free_and_more_is_waited_for() -> None:
    limit = Limit(100.0, Rate(WINDOWS))

    assert limit.charge(1_000, 0) == 0
    # 1,500 bytes in ten seconds are half as much again as allowed: after five seconds more it is right.
    assert limit.charge(500, 0) == 5_000


def test_a_client_that_pauses_as_told_keeps_to_its_rate() -> None:
    limit = Limit(1_000.0, Rate(WINDOWS))
    now_ms = sent = 0
    while now_ms < 300_000:
        sent += 700
        now_ms += max(limit.charge(700, now_ms), 1)

    assert 0.9 < sent / (now_ms / 1000) / 1_000 < 1.1


def test_what_is_older_than_the_windows_is_forgotten() -> None:
    rate = Rate(WINDOWS)
    rate.record(5_000, 0)

    assert rate.measure(1_000)[0] > 0
    assert rate.measure(11_000)[0] == 0.0


def test_rates_of_clients_that_are_gone_are_forgotten() -> None:
    quotas = quotas_of(entity(client_id=None))
    for number in range(METERS_KEPT_MAX + 1):
        limit = quotas.limit("", f"client-{number}")
        assert limit is not None
        limit.charge(1, 4_000_000 if number == METERS_KEPT_MAX - 1 else 0)

    assert len(quotas._meters) < 10


def test_a_full_bucket_gives_more_than_it_holds_once_and_the_debt_is_waited_for() -> None:
    bucket = Bucket(WINDOWS)

    # Two a second for eleven seconds are free, whenever the first client comes.
    assert bucket.wait_ms(2.0, 1_000_000) == 0
    assert bucket.charge(2.0, 30, 1_000_000) == 4_000
    assert bucket.wait_ms(2.0, 1_003_000) == 1_000
    assert bucket.wait_ms(2.0, 1_004_000) == 0


def test_a_bucket_that_nobody_takes_from_holds_no_more_than_all_windows() -> None:
    bucket = Bucket(WINDOWS)
    bucket.charge(1.0, 11, 0)

    assert bucket.charge(1.0, 12, 1_000_000) == 1_000
