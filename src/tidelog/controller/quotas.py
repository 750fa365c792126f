"""The command on client quotas (AlterClientQuotas): how much users, clients and addresses may do.

Each entity of a request succeeds or fails whole and alone. Who is bound by which quota is said by `broker/quotas.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from tidelog.controller.state import Controller
from tidelog.machine.runtime import RECORDS_PER_BATCH_MAX, Result
from tidelog.metadata.image import QuotaEntity
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.metadata_records import ClientQuotaRecord, EntityData
from tidelog.wire.schema import Message

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
LONG_MAX: Final = 2**63 - 1
# A limit that must be whole may be off by this much, for clients that calculate.
WHOLE_TOLERANCE: Final = 1e-6

# Quota -> whether its value must be a whole number.
OF_CLIENTS: Final = {
    "producer_byte_rate": True,
    "consumer_byte_rate": True,
    "request_percentage": False,
    "controller_mutation_rate": False,
}
OF_ADDRESSES: Final = {"connection_creation_rate": True}


class QuotaChange(NamedTuple):
    """One quota of an entity, set or (None) removed."""

    key: str
    value: float | None


class QuotasAltered(NamedTuple):
    """What became of the changes of one entity."""

    entity: QuotaEntity
    error: ProtocolError | None = None


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """An entity as the image keys it: each kind once, in one order."""
    return QuotaEntity(tuple(sorted(dict(parts).items())))


def alter_quotas(
    controller: Controller,
    changes: Sequence[tuple[QuotaEntity, Sequence[QuotaChange]]],
    *,
    validate_only: bool = False,
) -> Result[Message, list[QuotasAltered]]:
    """Set and remove quotas, or only say whether that would work."""
    named = Counter(entity for entity, _ in changes)
    records: list[Message] = []
    outcomes: dict[QuotaEntity, QuotasAltered] = {}
    for entity, wanted in changes:
        try:
            if named[entity] > 1 or len({change.key for change in wanted}) < len(wanted):
                raise _bad_request(f"Ignoring duplicate entity {_shown(entity)}")
            _check_entity(entity)
            records += _records(controller, entity, wanted)
            outcomes[entity] = QuotasAltered(entity)
        except ProtocolError as error:
            outcomes[entity] = QuotasAltered(entity, error)
    if len(records) > RECORDS_PER_BATCH_MAX:
        raise ProtocolError(ErrorCode.POLICY_VIOLATION, "This request is too large to be done at once.")
    return Result(() if validate_only else records, list(outcomes.values()))


def _check_entity(entity: QuotaEntity) -> None:
    kinds = {kind for kind, _ in entity.parts}
    if not kinds:
        raise _bad_request("Invalid empty client quota entity")
    for kind, name in entity.parts:
        if kind not in (USER, CLIENT_ID, IP):
            raise _bad_request(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _bad_request(f"Empty {kind} not supported")
    if IP in kinds and len(kinds) > 1:
        raise _bad_request("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = dict(entity.parts).get(IP)
    if address is not None:
        try:
            ip_address(address)
        except ValueError:
            raise _bad_request(f"{address} is not a valid IP or resolvable host.") from None


def _records(controller: Controller, entity: QuotaEntity, wanted: Sequence[QuotaChange]) -> list[Message]:
    allowed = OF_ADDRESSES if entity.parts[0][0] == IP else OF_CLIENTS
    before = controller.image.quotas.get(entity, {})
    records: list[Message] = []
    for key, value in wanted:
        if key not in allowed:
            raise _bad_request(f"Invalid configuration key {key}")
        if value is not None:
            value = _checked(key, value, whole=allowed[key])
        if before.get(key) == value:
            continue
        records.append(
            ClientQuotaRecord(
                entity=[EntityData(kind, name) for kind, name in entity.parts],
                key=key,
                value=value or 0.0,
                remove=value is None,
            )
        )
    return records


def _checked(key: str, value: float, *, whole: bool) -> float:
    # Not "value <= 0": a value that is not a number is no limit either.
    if not value > 0:
        raise _bad_request(f"Quota {key} must be greater than 0")
    if not whole:
        return value
    if math.isinf(value) or value > LONG_MAX:
        raise _bad_request(f"Proposed value for {key} is too large for a LONG.")
    if abs(value - round(value)) > WHOLE_TOLERANCE:
        raise _bad_request(f"{key} cannot be a fractional value.")
    return float(round(value))


def _shown(entity: QuotaEntity) -> str:
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity.parts)
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _bad_request(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, message)
