"""How driver and tasks reach the cluster: the one place where the `kafka.…` options of security become connections.

They travel as texts, since neither certificates nor TLS contexts do: a file that they name has to be wherever a task
runs, as with Spark's own connector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from tidelog.client.cluster import DEFAULT_CLIENT_ID, REQUEST_TIMEOUT_S, Cluster
from tidelog.client.core.java_security import security_settings
from tidelog.client.core.options import AdminOptions, read_options
from tidelog.client.errors import InvalidOption as InvalidSetting
from tidelog.client.security import security_in
from tidelog.spark.errors import InvalidOption

KAFKA_PREFIX: Final = "kafka."

# Settings of a client by Kafka's names, as something that can be compared and kept.
Protection: TypeAlias = tuple[tuple[str, str], ...]


def protection_of(options: Mapping[str, str]) -> Protection:
    """What options say of TLS and SASL; InvalidOption, before anybody connects, for what cannot be."""
    given = {name.lower().removeprefix(KAFKA_PREFIX): value for name, value in options.items() if is_kafkas(name)}
    found = security_settings(given)
    try:
        read_options(AdminOptions, "checked:1", found)
    except InvalidSetting as error:
        raise InvalidOption(f"The options {KAFKA_PREFIX}security, sasl and ssl: {error}") from None
    return tuple(sorted(found.items()))


def is_kafkas(name: str) -> bool:
    return name.lower().startswith(KAFKA_PREFIX)


def cluster_at(
    servers: str,
    protection: Protection,
    *,
    client_id: str = DEFAULT_CLIENT_ID,
    request_timeout_s: float = REQUEST_TIMEOUT_S,
) -> Cluster:
    """A cluster, with nothing sent yet."""
    security = security_in(dict(protection))
    return Cluster(servers, client_id=client_id, request_timeout_s=request_timeout_s, security=security)
