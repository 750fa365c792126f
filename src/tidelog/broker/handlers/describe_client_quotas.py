"""DescribeClientQuotas (key 48), v0-v1 (KIP-546): the quotas of the entities that a filter matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tidelog.broker.call import Call
from tidelog.metadata.image import ClusterImage, QuotaEntity
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

EXACT: Final = 0
DEFAULT: Final = 1
ANY: Final = 2
KINDS: Final = ("user", "client-id", "ip")

Matches = Callable[[str | None], bool]


class DescribeClientQuotasHandler:
    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    def __call__(self, call: Call, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
        try:
            wanted = _filter(request.components)
        except ProtocolError as error:
            return DescribeClientQuotasResponse(0, error.code, error.message, None)
        return DescribeClientQuotasResponse(
            entries=[
                EntryData(
                    [EntityData(kind, name) for kind, name in entity.parts],
                    [ValueData(key, limit) for key, limit in limits.items()],
                )
                for entity, limits in self._image().quotas.items()
                if _matches(entity, wanted, request.strict)
            ]
        )


def _filter(components: Iterable[ComponentData]) -> dict[str, Matches]:
    """How each kind of entity must be named."""
    wanted: dict[str, Matches] = {}
    for component in components:
        kind = component.entity_type
        if kind not in KINDS:
            raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if kind in wanted:
            raise _bad_request(f"Entity type {kind} cannot appear more than once in the filter.")
        wanted[kind] = _name_filter(component)
    if "ip" in wanted and len(wanted) > 1:
        raise _bad_request(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
    return wanted


def _name_filter(component: ComponentData) -> Matches:
    match = component.match
    if component.match_type == EXACT:
        if match is None:
            raise _bad_request("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        return lambda name: name == match
    if component.match_type not in (DEFAULT, ANY):
        raise _bad_request(f"Unknown match type {component.match_type}")
    if match is not None:
        kind = "DEFAULT" if component.match_type == DEFAULT else "SPECIFIED"
        raise _bad_request(f"Request specified MATCH_TYPE_{kind}, but also specified a match string.")
    if component.match_type == DEFAULT:
        return lambda name: name is None
    return lambda _: True


def _matches(entity: QuotaEntity, wanted: dict[str, Matches], strict: bool) -> bool:
    """A strict filter names every kind that the entity has; without any component it matches nothing."""
    names = dict(entity.parts)
    if strict and names.keys() != wanted.keys():
        return False
    return all(kind in names and matches(names[kind]) for kind, matches in wanted.items())


def _bad_request(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, message)
