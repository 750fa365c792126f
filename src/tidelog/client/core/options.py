"""Settings of producers, consumers and admin clients: Kafka's names, with underscores or dots, checked at once.

Read by the fronts when a client is made. A name that does not exist is refused with the one that was probably meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from tidelog.client.core.buffer_policy import BufferFullPolicy
from tidelog.client.core.described import EARLIEST, LATEST
from tidelog.client.core.java_security import TRANSLATIONS, without_java_names
from tidelog.client.core.sasl import MECHANISMS
from tidelog.client.errors import InvalidOption
from tidelog.wire.compression import Compression

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1
ACKS: Final = {"0": ACKS_NONE, "1": ACKS_LEADER, "all": ACKS_ALL, "-1": ACKS_ALL}
IN_FLIGHT_MAX_WITH_IDEMPOTENCE: Final = 5
INT32_MAX: Final = 2**31 - 1
TRUE_WORDS: Final = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS: Final = frozenset({"false", "no", "off", "0"})

# How much of a partition is fetched at once: for records, and for tables, which are decoded in a fraction of the time.
PARTITION_FETCH_BYTES: Final = 1024 * 1024
TABLE_FETCH_BYTES: Final = 4 * 1024 * 1024
RESETS: Final = {"earliest": EARLIEST, "latest": LATEST}

# Short names that people of other clients use.
ALIASES: Final = {
    "compression": "compression_type",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "max_in_flight_requests": "max_in_flight_requests_per_connection",
    "metadata_broker_list": "bootstrap_servers",
    "idempotence": "enable_idempotence",
    "partition_assignment_strategy": "assignors",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "linger": "linger_ms",
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_plain_username": "sasl_username",
    "sasl_plain_password": "sasl_password",
    "ssl_ca_location": "ssl_cafile",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_key_location": "ssl_keyfile",
    "ssl_key_password": "ssl_password",
}

O = TypeVar("O", bound="ClientOptions")  # noqa: E741


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What every client can be told."""

    bootstrap_servers: str
    client_id: str = "tidelog"
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    socket_connection_setup_timeout_ms: int = 10_000
    security_protocol: str = "PLAINTEXT"
    # An ssl.SSLContext of the program's own, instead of the files.
    ssl_context: Any = None
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    # What would be in the files, as PEM.
    ssl_cadata: str | None = None
    ssl_certdata: str | None = None
    ssl_keydata: str | None = field(default=None, repr=False)
    ssl_password: str | None = field(default=None, repr=False)
    ssl_check_hostname: bool = True
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    def check(self) -> None:
        """InvalidOption for what cannot go together."""
        _one_of(self, "security_protocol", ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
        if self.uses_sasl:
            if self.sasl_mechanism not in MECHANISMS:
                raise InvalidOption(f"sasl_mechanism={self.sasl_mechanism} is not one of {', '.join(MECHANISMS)}.")
            if self.sasl_username is None or self.sasl_password is None:
                raise InvalidOption(f"{self.sasl_mechanism} needs sasl_username and sasl_password.")
        elif self.sasl_mechanism is not None:
            raise InvalidOption("sasl_mechanism needs security_protocol=SASL_SSL or SASL_PLAINTEXT.")
        certificates = (self.ssl_context, self.ssl_cafile, self.ssl_cadata, self.ssl_certfile, self.ssl_certdata)
        if not self.uses_tls and any(each is not None for each in certificates):
            raise InvalidOption("Certificates need security_protocol=SSL or SASL_SSL.")
        if (self.ssl_certdata is None) != (self.ssl_keydata is None):
            raise InvalidOption("ssl_certdata and ssl_keydata belong together: a certificate and its key.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """What a producer can be told."""

    acks: int = ACKS_ALL
    compression_type: Compression = Compression.NONE
    compression_level: int | None = None
    linger_ms: float = 5.0
    batch_size: int = 128 * 1024
    buffer_memory: int = 32 * 1024 * 1024
    buffer_full: BufferFullPolicy = BufferFullPolicy.BLOCK
    max_block_ms: float = 60_000.0
    max_request_size: int = 1024 * 1024
    delivery_timeout_ms: float = 120_000.0
    retries: int = INT32_MAX
    enable_idempotence: bool | None = None
    max_in_flight_requests_per_connection: int = 5
    partitioner: Any = "sticky"
    key_serializer: Any = None
    value_serializer: Any = None
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    transaction_two_phase_commit_enable: bool = False
    allow_auto_create_topics: bool = True

    @property
    def idempotent(self) -> bool:
        """On unless it was turned off, or cannot be because not all replicas are asked."""
        if self.enable_idempotence is None:
            return self.acks == ACKS_ALL and self.retries > 0
        return self.enable_idempotence

    def check(self) -> None:
        ClientOptions.check(self)
        if self.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
            raise InvalidOption(f"acks={self.acks} is not one of 0, 1, all.")
        if self.enable_idempotence:
            if self.acks != ACKS_ALL:
                raise InvalidOption("enable_idempotence needs acks=all: other acknowledgements may be taken back.")
            if self.max_in_flight_requests_per_connection > IN_FLIGHT_MAX_WITH_IDEMPOTENCE:
                raise InvalidOption(
                    "enable_idempotence allows at most 5 max_in_flight_requests_per_connection: a broker remembers 5."
                )
        if self.transactional_id is not None and not self.idempotent:
            raise InvalidOption("transactional_id needs enable_idempotence=True and acks=all.")
        if self.transactional_id == "":
            raise InvalidOption("transactional_id is empty.")
        _at_least(self, 1, "batch_size", "buffer_memory", "max_request_size", "max_in_flight_requests_per_connection")
        _at_least(self, 0, "linger_ms", "max_block_ms", "delivery_timeout_ms", "retries")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions(ClientOptions):
    """What a consumer can be told."""

    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: str = "classic"
    group_remote_assignor: str | None = None
    assignors: Any = ("range", "cooperative-sticky")
    auto_offset_reset: str = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: float = 5_000.0
    isolation_level: str = "read_uncommitted"
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = PARTITION_FETCH_BYTES
    check_crcs: bool = True
    client_rack: str = ""
    exclude_internal_topics: bool = True
    allow_auto_create_topics: bool = True
    key_deserializer: Any = None
    value_deserializer: Any = None

    @property
    def read_committed(self) -> bool:
        return self.isolation_level == "read_committed"

    @property
    def reset_to_ms(self) -> int | None:
        """The special time at which to begin where no position is known; None: the program has to say."""
        return RESETS.get(self.auto_offset_reset)

    @property
    def table_fetch_bytes(self) -> int:
        """How much of a partition is fetched at once when tables are wanted, unless the program said how much."""
        said = self.max_partition_fetch_bytes != PARTITION_FETCH_BYTES
        return self.max_partition_fetch_bytes if said else TABLE_FETCH_BYTES

    def check(self) -> None:
        ClientOptions.check(self)
        _one_of(self, "group_protocol", ("classic", "consumer"))
        _one_of(self, "auto_offset_reset", ("earliest", "latest", "none"))
        _one_of(self, "isolation_level", ("read_uncommitted", "read_committed"))
        _at_least(self, 1, "max_poll_records", "fetch_max_bytes", "max_partition_fetch_bytes", "session_timeout_ms")
        _at_least(self, 0, "fetch_min_bytes", "fetch_max_wait_ms", "auto_commit_interval_ms")
        if self.group_protocol == "classic" and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise InvalidOption("heartbeat_interval_ms must be below session_timeout_ms.")
        if self.group_instance_id is not None and self.group_id is None:
            raise InvalidOption("group_instance_id needs a group_id.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminOptions(ClientOptions):
    """What an admin client can be told."""

    default_api_timeout_ms: int = 60_000


def read_options(kind: type[O], given: Mapping[str, Any] | str | None, named: Mapping[str, Any]) -> O:
    """The settings of a client from a mapping (or only the bootstrap servers) and from named arguments."""
    everything: dict[str, Any] = {"bootstrap_servers": given} if isinstance(given, str) else dict(given or {})
    for name, value in named.items():
        if name in everything:
            raise InvalidOption(f"{name} is given twice.")
        everything[name] = value
    known = {field.name: field for field in fields(kind)}
    spelled: dict[str, Any] = {}
    for written, value in everything.items():
        name = written.replace(".", "_").replace("-", "_").lower()
        name = ALIASES.get(name, name)
        if name not in known and name not in TRANSLATIONS:
            raise InvalidOption(_unknown(written, list(known)))
        if name in spelled:
            raise InvalidOption(f"{name} is given twice, once as {written}.")
        spelled[name] = value
    read: dict[str, Any] = {}
    for name, value in without_java_names(spelled).items():
        default = known[name].default
        read[name] = _converted(name, value, None if default is MISSING else default)
    if not read.get("bootstrap_servers"):
        raise InvalidOption("bootstrap_servers is missing; write it as HOST:PORT.")
    options = kind(**read)
    options.check()
    return options


def is_setting(kind: type[ClientOptions], written: str) -> bool:
    """Whether a client of this kind has a setting of this name, in any of its spellings."""
    name = written.replace(".", "_").replace("-", "_").lower()
    return ALIASES.get(name, name) in {field.name for field in fields(kind)} or name in TRANSLATIONS


def _unknown(written: str, known: Sequence[str]) -> str:
    dotted = "." in written
    close = get_close_matches(written.replace(".", "_").lower(), [*known, *ALIASES], n=1, cutoff=0.6)
    if not close:
        return f"There is no setting {written!r}."
    meant = ALIASES.get(close[0], close[0])
    return f"There is no setting {written!r}. Did you mean {meant.replace('_', '.') if dotted else meant!r}?"


def _converted(name: str, value: Any, default: Any) -> Any:
    special = CONVERSIONS.get(name)
    try:
        if special is not None:
            return special(value)
        if isinstance(default, bool):
            return _boolean(value)
        if isinstance(default, int) and not isinstance(value, int):
            return int(value)
        if isinstance(default, float):
            return float(value)
        if isinstance(default, str) and not isinstance(value, str):
            raise ValueError("a text is wanted")
        return value
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidOption(f"{name}={value!r} cannot be: {error}") from None


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise ValueError("true or false is wanted")


def _servers(value: Any) -> str:
    return value if isinstance(value, str) else ",".join(value)


def _acks(value: Any) -> int:
    try:
        return ACKS[str(value).lower()]
    except KeyError:
        raise ValueError("0, 1 or all is wanted") from None


def _compression(value: Any) -> Compression:
    if isinstance(value, Compression):
        return value
    try:
        return Compression[str(value or "none").upper()]
    except KeyError:
        raise ValueError(f"one of {', '.join(codec.name.lower() for codec in Compression)} is wanted") from None


def _optional_boolean(value: Any) -> bool | None:
    return None if value is None else _boolean(value)


def _lower(value: Any) -> str:
    return str(value).lower()


def _upper(value: Any) -> str:
    return str(value).upper()


def _optional_upper(value: Any) -> str | None:
    return None if value is None else _upper(value)


def _names(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else tuple(value)


CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "bootstrap_servers": _servers,
    "acks": _acks,
    "compression_type": _compression,
    "buffer_full": lambda value: BufferFullPolicy(str(value).lower()),
    "enable_idempotence": _optional_boolean,
    "group_protocol": _lower,
    "security_protocol": _upper,
    "sasl_mechanism": _optional_upper,
    "auto_offset_reset": _lower,
    "isolation_level": _lower,
    "assignors": _names,
}


def _at_least(options: ClientOptions, least: int, *names: str) -> None:
    for name in names:
        if getattr(options, name) < least:
            raise InvalidOption(f"{name}={getattr(options, name)} is below {least}.")


def _one_of(options: ClientOptions, name: str, allowed: Sequence[str]) -> None:
    if getattr(options, name) not in allowed:
        raise InvalidOption(f"{name}={getattr(options, name)} is not one of {', '.join(allowed)}.")
