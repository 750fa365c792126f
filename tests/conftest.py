"""Fixtures for tests that run a real server: ours as a process of its own, and a real Apache Kafka beside it.

With TIDELOG_TEST_SERVER=apache the fixture `broker` is Apache Kafka too: what passes there is a true statement about
Kafka, so the same test failing on ours is our fault.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings
from xdist.remote import Producer

from harness.apache_kafka import apache_kafka as apache_kafka_server
from harness.apache_kafka import jar_folder
from harness.java import JavaTools
from harness.server import ServerProcess, StartBroker
from harness.sharing_out import SharingOut, longest_first
from harness.tidelog_server import tidelog_server

# A shared machine stalls now and then: a slow example says nothing about the code.
hypothesis_settings.register_profile("tidelog", deadline=None)
hypothesis_settings.load_profile("tidelog")

_running: list[ServerProcess] = []


def pytest_configure(config: pytest.Config) -> None:
    # kafka-python reads its schemas with calls that Python means to drop; nothing of ours is hidden by this.
    for module in ("kafka", "importlib"):
        config.addinivalue_line("filterwarnings", f"ignore::DeprecationWarning:{module}.*")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SharingOut:
    return SharingOut(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(
        config, "workerinput"
    ):  # Only where workers share them out: alone, the order of the folders is better to read.
        longest_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the servers logged beside the failure of the test that used them."""
    report = yield
    if report.failed:
        report.sections += [(f"{server.launch.name} on port {server.port}", server.log_tail()) for server in _running]
    return report


@pytest.fixture(scope="session")
def on_apache_kafka() -> bool:
    """Whether the tests run against Apache Kafka instead of ours."""
    return os.environ.get("TIDELOG_TEST_SERVER") == "apache"


@pytest.fixture(scope="session")
def apache_kafka_classpath() -> str:
    return f"{jar_folder()}/*"


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One real Apache Kafka for the whole run; use topic names of your own."""
    yield from _run(apache_kafka_server(tmp_path_factory.mktemp("apache-kafka")))


@pytest.fixture(scope="module")
def start_broker(tmp_path_factory: pytest.TempPathFactory, on_apache_kafka: bool) -> Iterator[StartBroker]:
    """Start a broker with settings of its own: `start_broker({"auto.create.topics.enable": "false"})`."""
    started: list[ServerProcess] = []

    def start(settings: Mapping[str, str] | None = None, folder: Path | None = None) -> ServerProcess:
        make = apache_kafka_server if on_apache_kafka else tidelog_server
        server = make(folder or tmp_path_factory.mktemp("broker"), settings)
        started.append(server)
        _running.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.stop()
        _running.remove(server)


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> ServerProcess:
    """One broker for the tests of a module. It may be restarted or killed and started again; its data stays."""
    return start_broker()


@pytest.fixture(scope="module")
def java_tools(broker: ServerProcess) -> JavaTools:
    return JavaTools(broker.bootstrap_servers)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses: the test's own."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "." for letter in request.node.name)[:200]


def _run(server: ServerProcess) -> Iterator[ServerProcess]:
    _running.append(server)
    server.start()
    yield server
    server.stop()
    _running.remove(server)
