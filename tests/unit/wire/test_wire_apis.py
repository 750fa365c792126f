"""The table of APIs agrees with the modules that declare their messages."""

from __future__ import annotations

import pytest

from tidelog.wire.apis import APIS, BY_NAME, Api, flexible_from, request_class, response_class
from tidelog.wire.primitives import MalformedMessage
from tidelog.wire.schema import LATEST, VersionRange


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_api_has_a_request_and_a_response(api: Api) -> None:
    request, response = request_class(api.key), response_class(api.key)
    assert request.API_KEY == response.API_KEY == api.key
    assert request.RESPONSE is response
    assert request.VERSIONS == response.VERSIONS
    assert api.versions == VersionRange.parse(request.VERSIONS)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_request_and_its_response_become_flexible_together(api: Api) -> None:
    assert request_class(api.key).FLEXIBLE == response_class(api.key).FLEXIBLE


def test_the_keys_have_no_gap() -> None:
    assert list(APIS) == list(range(len(APIS)))


def test_an_api_is_found_by_name() -> None:
    assert BY_NAME["ListOffsets"] == Api(2, "ListOffsets")
    assert BY_NAME["ListOffsets"].module == "tidelog.wire.messages.list_offsets"


def test_an_api_says_when_it_became_flexible() -> None:
    assert flexible_from(BY_NAME["Produce"].key) == 9
    assert flexible_from(BY_NAME["Vote"].key) == 0


def test_an_api_that_never_became_flexible_does_not_by_a_high_version() -> None:
    assert flexible_from(BY_NAME["SaslHandshake"].key) > LATEST


def test_there_is_no_message_of_an_unknown_api() -> None:
    with pytest.raises(MalformedMessage):
        request_class(93)
