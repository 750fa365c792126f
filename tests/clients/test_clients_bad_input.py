"""What a broken or hostile client sends: a clear error code or a closed connection, and nobody else notices.

After every test another client still writes and reads, and our broker has neither grown nor logged a fault of its own.
"""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import struct
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from drivers import confluent_driver
from drivers.corpus import any_records
from drivers.topics import create_topic

from harness.raw_client import RawClient, batch_of, fetch_request, produce_request
from harness.server import HOST, ServerProcess, StartBroker
from harness.waiting import wait_until
from tidelog.model.errors import ErrorCode
from tidelog.wire import messages
from tidelog.wire.frames import encode_request
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.messages.produce import ProduceResponse
from tidelog.wire.schema import Request, VersionRange

SECONDS_MAX = 20
MIB = 1024 * 1024
FRAME_BYTES_MAX = 100 * MIB  # socket.request.max.bytes
GROWTH_BYTES_MAX = 96 * MIB
HALF_OPEN = 10_000
SPARE_FILES = 500
PRODUCE_VERSION = 12
METADATA_VERSION = 12
RECORDS = any_records(200)


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> ServerProcess:
    """A broker that may open as many files as this machine lets it, and so may we."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return start_broker()


@pytest.fixture(autouse=True)
def others_are_unaffected(broker: ServerProcess, topic: str, on_apache_kafka: bool) -> Iterator[None]:
    neighbour = create_topic(broker.bootstrap_servers, f"neighbour.of.{topic}"[:200])
    confluent_driver.produce(broker.bootstrap_servers, neighbour, RECORDS)
    rss_before, logged_before = broker.rss_bytes(), len(broker.log())

    yield

    confluent_driver.produce(broker.bootstrap_servers, neighbour, RECORDS)
    assert confluent_driver.consume(broker.bootstrap_servers, neighbour, 2 * len(RECORDS)) == RECORDS * 2
    if not on_apache_kafka:  # A JVM's memory and log follow rules of their own.
        assert broker.rss_bytes() - rss_before < GROWTH_BYTES_MAX
        logged = broker.log()[logged_before:]
        assert "Traceback" not in logged
        assert "level=error" not in logged


def connect(broker: ServerProcess) -> socket.socket:
    return socket.create_connection((HOST, broker.port), timeout=SECONDS_MAX)


def is_closed(connection: socket.socket) -> bool:
    """Whether the broker hangs up, without having said anything."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("claimed", [-1, -(2**31), FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_a_frame_of_forbidden_size_closes_the_connection(broker: ServerProcess, claimed: int) -> None:
    with connect(broker) as connection:
        connection.sendall(struct.pack(">i", claimed) + b"x" * 100)

        assert is_closed(connection)


@pytest.mark.parametrize("size", range(8))
def test_a_frame_too_short_for_a_header_closes_the_connection(broker: ServerProcess, size: int) -> None:
    with connect(broker) as connection:
        connection.sendall(struct.pack(">i", size) + b"\0" * size)

        assert is_closed(connection)


def test_frames_that_only_claim_to_be_large_cost_no_memory(broker: ServerProcess, on_apache_kafka: bool) -> None:
    before = broker.rss_bytes()
    with contextlib.ExitStack() as open_connections:
        # Apache Kafka allocates what a frame claims: a handful of these ends it.
        for _ in range(1 if on_apache_kafka else 50):
            connection = open_connections.enter_context(connect(broker))
            connection.sendall(struct.pack(">ihhih", FRAME_BYTES_MAX, 0, 3, 1, -1) + b"x" * 1000)
        time.sleep(0.5)

        assert on_apache_kafka or broker.rss_bytes() - before < GROWTH_BYTES_MAX


def test_a_frame_that_never_ends_and_then_hangs_up_is_forgotten(broker: ServerProcess, on_apache_kafka: bool) -> None:
    for _ in range(1 if on_apache_kafka else 20):
        with connect(broker) as connection:
            connection.sendall(struct.pack(">i", 50 * MIB) + b"x" * MIB)


@pytest.mark.parametrize("api_key", [-1, 999, 32767])
def test_an_unknown_api_key_closes_the_connection(broker: ServerProcess, api_key: int) -> None:
    with connect(broker) as connection:
        connection.sendall(struct.pack(">ihhih", 10, api_key, 0, 1, -1))

        assert is_closed(connection)


@pytest.mark.parametrize(("api_key", "version"), [(0, 2), (1, 3), (3, 99), (3, -1), (19, 99)])
def test_an_unknown_version_closes_the_connection(broker: ServerProcess, api_key: int, version: int) -> None:
    with connect(broker) as connection:
        connection.sendall(struct.pack(">ihhih", 10, api_key, version, 1, -1))

        assert is_closed(connection)


def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest_form(broker: ServerProcess) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        client.socket.sendall(struct.pack(">ihhihbb", 12, 18, 99, 7, -1, 0, 0))
        answer = client.receive(ApiVersionsResponse, 0)

        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert 18 in [api.api_key for api in answer.api_keys]
        # The connection lives on: the client tries again with a version that is served.
        assert client.ask(ApiVersionsRequest("test", "1"), ApiVersionsResponse, 3).error_code == 0


@pytest.mark.parametrize("name", ["", ".", "..", "bad name", "ü", "n" * 250, "a/b", "../../etc"])
def test_a_topic_name_that_cannot_be_is_refused_and_never_created(broker: ServerProcess, name: str) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        wanted = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
        (described,) = client.ask(wanted, MetadataResponse, METADATA_VERSION).topics
        assert described.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

        produced = client.ask(produce_request(name, batch_of(b"value")), ProduceResponse, PRODUCE_VERSION)
        assert produced.responses[0].partition_responses[0].error_code in (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )

    names = [path.name for path in (broker.folder / "data").iterdir()]
    assert f"{name}-0" not in names


def test_acks_other_than_none_one_or_all_are_refused(broker: ServerProcess, topic: str) -> None:
    create_topic(broker.bootstrap_servers, topic)
    with RawClient(broker.bootstrap_servers) as client:
        request = produce_request(topic, batch_of(b"value"), acks=5)
        answer = client.ask(request, ProduceResponse, PRODUCE_VERSION)

        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.req("E1")
def test_a_write_without_acknowledgement_that_fails_closes_the_connection(broker: ServerProcess, topic: str) -> None:
    create_topic(broker.bootstrap_servers, topic)
    with RawClient(broker.bootstrap_servers) as client:
        client.send(produce_request(topic, batch_of(b"value"), acks=0), PRODUCE_VERSION)
        # A good one is not answered at all; the next answer on the connection is that to the next request.
        assert client.ask(ApiVersionsRequest("test", "1"), ApiVersionsResponse, 3).error_code == 0

        client.send(produce_request(topic, batch_of(b"value"), partition=77, acks=0), PRODUCE_VERSION)
        assert client.is_closed_by_peer()


def test_every_request_cut_short_is_answered_or_its_connection_closed(broker: ServerProcess) -> None:
    for request, version in every_request(broker):
        whole = encode_request(request, version, 1, "cut")
        for size in {10, 13, (len(whole) + 13) // 2, len(whole) - 5, len(whole) - 4 - 1}:
            if 10 <= size < len(whole) - 4:
                survives(broker, struct.pack(">i", size) + whole[4 : 4 + size])


def test_noise_behind_a_good_header_is_answered_or_its_connection_closed(broker: ServerProcess) -> None:
    noise = random.Random(7)
    for request, version in every_request(broker):
        header = struct.pack(">hhih5s", request.API_KEY, version, 1, 5, b"noise")
        for _ in range(4):
            body = header + noise.randbytes(noise.choice((1, 7, 40, 300)))
            survives(broker, struct.pack(">i", len(body)) + body)


def test_lists_that_claim_to_be_endless_are_refused(broker: ServerProcess) -> None:
    for request, version in every_request(broker):
        header = struct.pack(">hhih5s", request.API_KEY, version, 1, 5, b"noise")
        for endless in (b"\x7f\xff\xff\xff" * 4, b"\x00\xff\xff\xff\xff\x0f" * 4):
            body = header + endless
            survives(broker, struct.pack(">i", len(body)) + body)


def test_10_000_half_open_connections_leave_room_for_others(broker: ServerProcess, on_apache_kafka: bool) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(HALF_OPEN, hard - SPARE_FILES)
    before = broker.rss_bytes()
    half_open: list[socket.socket] = []
    try:
        for number in range(count):
            connection = connect(broker)
            connection.sendall((b"", b"\0", b"\0\0\0\x20\0\x12")[number % 3])
            half_open.append(connection)

        began = time.monotonic()
        with RawClient(broker.bootstrap_servers) as client:
            assert client.ask(ApiVersionsRequest("test", "1"), ApiVersionsResponse, 3).error_code == 0
        assert time.monotonic() - began < 10
        assert on_apache_kafka or broker.rss_bytes() - before < GROWTH_BYTES_MAX
    finally:
        for connection in half_open:
            connection.close()
    wait_until(lambda: open_files(broker) < SPARE_FILES, seconds_max=SECONDS_MAX)


def test_a_client_that_asks_for_much_and_reads_nothing_is_held_back(
    broker: ServerProcess, topic: str, on_apache_kafka: bool
) -> None:
    create_topic(broker.bootstrap_servers, topic)
    with RawClient(broker.bootstrap_servers) as writer:
        for _ in range(40):
            written = writer.ask(produce_request(topic, batch_of(b"x" * 900_000)), ProduceResponse, PRODUCE_VERSION)
            assert written.responses[0].partition_responses[0].error_code == 0
    before = broker.rss_bytes()
    asking = encode_request(
        fetch_request(topic, {0: 0}, max_bytes=50 * MIB, partition_max_bytes=50 * MIB), 12, 1, "greedy"
    )

    with contextlib.ExitStack() as open_connections:
        for _ in range(20):
            greedy = open_connections.enter_context(connect(broker))
            greedy.settimeout(1)
            with contextlib.suppress(TimeoutError):
                for _ in range(500):
                    greedy.sendall(asking)
        time.sleep(1)

        assert on_apache_kafka or broker.rss_bytes() - before < GROWTH_BYTES_MAX


def test_a_client_that_sends_forever_and_reads_nothing_is_not_read_forever(broker: ServerProcess) -> None:
    asking = encode_request(MetadataRequest(None), METADATA_VERSION, 1, "chatty") * 100
    sent = 0
    with connect(broker) as chatty:
        chatty.settimeout(2)
        with pytest.raises(TimeoutError):
            while sent < 1024 * MIB:
                sent += chatty.send(asking)


def every_request(broker: ServerProcess) -> Iterator[tuple[Request, int]]:
    """One request of every API and version that the broker says it serves."""
    with RawClient(broker.bootstrap_servers) as client:
        served = client.ask(ApiVersionsRequest("test", "1"), ApiVersionsResponse, 3).api_keys
    by_key = {kind.API_KEY: kind for kind in all_requests()}
    for api in served:
        kind = by_key.get(api.api_key)
        if kind is not None:
            # Produce is advertised from version 0 on, for old librdkafka, but served from version 3 on.
            first, last = VersionRange.parse(kind.VERSIONS)
            for version in range(max(first, api.min_version), min(last, api.max_version) + 1):
                yield kind(), version


def all_requests() -> list[type[Request]]:
    for module in iter_modules(messages.__path__, f"{messages.__name__}."):
        import_module(module.name)
    return Request.__subclasses__()


def survives(broker: ServerProcess, frame: bytes) -> None:
    """Send a frame and a good request behind it: the connection is closed, or the good one is answered."""
    with RawClient(broker.bootstrap_servers) as client:
        client.socket.sendall(frame + struct.pack(">ihhih", 10, 18, 0, 4242, -1))
        received = b""
        while True:
            try:
                data = client.socket.recv(65536)
            except ConnectionError:
                return
            received += data
            if not data or last_correlation_id(received) == 4242:
                return


def last_correlation_id(received: bytes) -> int | None:
    """Of the last whole frame."""
    position, found = 0, None
    while position + 8 <= len(received):
        size, correlation_id = struct.unpack_from(">ii", received, position)
        position += 4 + size
        if position <= len(received):
            found = correlation_id
    return found


def open_files(broker: ServerProcess) -> int:
    return sum(1 for _ in Path(f"/proc/{broker.pid}/fd").iterdir())
