"""Every declaration in `tidelog.wire.messages` against the published protocol, field by field."""

from __future__ import annotations

import copy
import csv
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from protocol_facts import (
    FACTS,
    Json,
    declared_fact,
    declared_messages,
    differences,
    published_fact,
    published_messages,
    snake_case,
)

from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.schema import LATEST, Request, VersionRange, bool_, ignorable, int32, nullable, since, string, tag

PUBLISHED = published_messages()

# Before 4.1, key 74 had another name; version 0 of ListConfigResources is the same on the wire.
RENAMED = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
}


def test_every_published_message_is_declared_and_no_other() -> None:
    assert set(declared_messages()) == set(PUBLISHED) - set(RENAMED)


@pytest.mark.parametrize("name", sorted(declared_messages()))
def test_a_declaration_equals_the_published_facts(name: str) -> None:
    assert differences(published_fact(PUBLISHED[name]), declared_fact(declared_messages()[name])) == []


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_renamed_message_has_the_same_layout_in_version_0(old: str, new: str) -> None:
    def layout(fields: tuple[Any, ...]) -> list[Any]:
        return [(field.kind, field.tag, layout(field.fields)) for field in fields if 0 in field.versions]

    before, after = published_fact(PUBLISHED[old]), declared_fact(declared_messages()[new])
    assert layout(before.fields) == layout(after.fields)
    assert before.key == after.key


def test_a_request_names_its_response_and_lives_in_the_module_of_its_api() -> None:
    requests = [message for message in declared_messages().values() if issubclass(message, Request)]
    assert len(requests) == 93
    for request in requests:
        api = request.__name__.removesuffix("Request")
        assert request.RESPONSE is declared_messages()[f"{api}Response"]
        assert request.RESPONSE.VERSIONS == request.VERSIONS
        assert request.RESPONSE.API_KEY == request.API_KEY
        assert request.__module__ == request.RESPONSE.__module__ == f"tidelog.wire.messages.{snake_case(api)}"


def test_no_two_requests_share_an_api_key() -> None:
    keys = [message.API_KEY for message in declared_messages().values() if issubclass(message, Request)]
    assert len(set(keys)) == len(keys)


def test_everything_that_a_real_broker_advertises_is_declared() -> None:
    requests = {message.API_KEY: message for message in declared_messages().values() if issubclass(message, Request)}
    lines = (FACTS / "apache-kafka-4.2-api-versions.csv").read_text().splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert len(rows) > 70
    for row in rows:
        declared = requests[int(row["api_key"])]
        assert declared.__name__ == f"{row['name']}Request"
        versions = VersionRange.parse(declared.VERSIONS)
        # A broker advertises Produce from 0 for the sake of old librdkafka, but answers only from 3 (KIP-896).
        assert versions.first <= int(row["min"]) or row["name"] == "Produce"
        assert int(row["max"]) <= versions.last < LATEST


# The comparison itself must be able to fail: each entry changes one published fact of FetchRequest or FetchResponse.


def _field(message: Json, *path: str) -> Json:
    fields = message["fields"]
    for name in path[:-1]:
        fields = next(field for field in fields if field["name"] == name)["fields"]
    return next(field for field in fields if field["name"] == path[-1])


def _swap_first_fields(message: Json) -> None:
    fields = message["fields"]
    fields[0], fields[1] = fields[1], fields[0]


PARTITION = ("Topics", "Partitions")
PLANTED: dict[str, Callable[[Json], object]] = {
    "key": lambda message: message.update(key=2),
    "kind": lambda message: message.update(kind="response"),
    "first version": lambda message: message.update(versions="3-18"),
    "last version": lambda message: message.update(versions="4-19"),
    "flexible": lambda message: message.update(flexible="11+"),
    "order": _swap_first_fields,
    "missing field": lambda message: message["fields"].pop(),
    "added field": lambda message: message["fields"].append({"name": "New", "type": "int8", "versions": "18+"}),
    "name": lambda message: _field(message, "MaxWaitMs").update(name="MaxWait"),
    "nested name": lambda message: _field(message, *PARTITION, "FetchOffset").update(name="Offset"),
    "type": lambda message: _field(message, "MaxBytes").update(type="int64"),
    "array": lambda message: _field(message, "ForgottenTopicsData", "Partitions").update(type="int32"),
    "element": lambda message: _field(message, "ForgottenTopicsData", "Partitions").update(type="[]int64"),
    "versions begin": lambda message: _field(message, *PARTITION, "LogStartOffset").update(versions="6+"),
    "versions end": lambda message: _field(message, "ReplicaId").update(versions="0-13"),
    "nullable": lambda message: _field(message, "ClusterId").update(nullable="13+"),
    "not nullable": lambda message: _field(message, "RackId").update(nullable="11+"),
    "tag": lambda message: _field(message, "ReplicaState").update(tag=2),
    "tag versions": lambda message: _field(message, "ReplicaState").update(tagged="16+"),
    "not tagged": lambda message: _field(message, "ReplicaState").pop("tagged"),
    "default": lambda message: _field(message, "MaxBytes").update(default="0"),
    "no default": lambda message: _field(message, "ReplicaId").pop("default"),
    "null default": lambda message: _field(message, "ClusterId").pop("default"),
    "ignorable": lambda message: _field(message, *PARTITION, "LastFetchedEpoch").update(ignorable=True),
    "not ignorable": lambda message: _field(message, *PARTITION, "CurrentLeaderEpoch").pop("ignorable"),
    "encoding": lambda message: _field(message, "RackId").update(flexible="none"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_changed_fact_is_noticed(planted: str) -> None:
    message = copy.deepcopy(PUBLISHED["FetchRequest"])
    PLANTED[planted](message)
    assert differences(published_fact(message), declared_fact(declared_messages()["FetchRequest"])) != []


@pytest.mark.parametrize("name", sorted(declared_messages()))
def test_a_changed_name_or_type_of_any_field_is_noticed(name: str) -> None:
    declared = declared_fact(declared_messages()[name])
    message = copy.deepcopy(PUBLISHED[name])
    for field in _all_live_fields(message, message["fields"], published_fact(message).versions):
        for change in ({"name": f"{field['name']}X"}, {"type": "uint32", "default": "0"}):
            before = dict(field)
            field.update(change)
            assert differences(published_fact(message), declared) != [], (field["name"], change)
            field.clear()
            field.update(before)
    assert differences(published_fact(message), declared) == []


def _all_live_fields(message: Json, fields: list[Json], around: frozenset[int]) -> list[Json]:
    structs = {struct["name"]: struct["fields"] for struct in message.get("structs", [])}
    found = []
    for field in fields:
        versions = VersionRange.parse(field["versions"])
        alive = frozenset(version for version in around if version in versions)
        if alive:
            element = field["type"].removeprefix("[]")
            inner = field.get("fields") or structs.get(element, [])
            found += [field, *_all_live_fields(message, inner, alive)]
    return found


class DeclaredWrong(Request):
    VERSIONS = "0-13"
    FLEXIBLE = "9+"
    API_KEY = 3
    RESPONSE = MetadataRequest.RESPONSE

    topics: Annotated[list[MetadataRequestTopic] | None, nullable("1+")] = []
    allow_auto_topic_creation: Annotated[bool_, since("4+")] = True
    include_cluster_authorized_operations: Annotated[bool_, since("8-11")] = False
    include_topic_authorized_operations: Annotated[bool_, since("8+")] = False


def test_a_wrong_declaration_is_noticed() -> None:
    published = published_fact(dict(PUBLISHED["MetadataRequest"], name="DeclaredWrong"))
    assert [line.partition(" is ")[0] for line in differences(published, declared_fact(DeclaredWrong))] == [
        "DeclaredWrong.include_cluster_authorized_operations:versions"
    ]


def test_a_default_of_another_type_is_noticed() -> None:
    # In Python False == 0 == 0.0, on the wire they are not the same.
    assert differences(0, False) != []
    assert differences(0, 0.0) != []


class TaggedTwice(Request):
    one: Annotated[int32, since("1+"), tag(0, "1+")] = 0


class NullableByHalf(Request):
    one: Annotated[string | None, ignorable] = None


@pytest.mark.parametrize("message", [TaggedTwice, NullableByHalf])
def test_a_contradictory_declaration_is_refused(message: type[Request]) -> None:
    with pytest.raises(AssertionError):
        declared_fact(message)
