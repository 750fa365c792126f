"""Requests about settings of topics and brokers, and what their answers mean. `client/admin.py` sends them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.client.core.described import ConfigChange, ConfigEntry, ConfigSource, Resource, ResourceType, Synonym
from tidelog.client.errors import Rejected, rejection
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


def describe_configs(resources: Iterable[Resource], documentation: bool) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        [DescribeConfigsResource(resource.type, resource.name, None) for resource in resources],
        include_synonyms=True,
        include_documentation=documentation,
    )


def described_configs(answer: DescribeConfigsResponse) -> dict[Resource, list[ConfigEntry] | Rejected]:
    return {
        Resource(ResourceType(result.resource_type), result.resource_name): rejection(
            result.error_code, result.error_message
        )
        or [_entry(entry) for entry in result.configs]
        for result in answer.results
    }


def alter_configs(
    resource: Resource, changes: Mapping[str, tuple[ConfigChange, str | None]], validate_only: bool
) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name, change, value) for name, (change, value) in changes.items()]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(resource.type, resource.name, configs)], validate_only)


def _entry(answer: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        answer.name,
        answer.value,
        _source(answer.config_source),
        answer.read_only,
        answer.is_sensitive,
        tuple(Synonym(synonym.name, synonym.value, _source(synonym.source)) for synonym in answer.synonyms),
        answer.documentation,
    )


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN
