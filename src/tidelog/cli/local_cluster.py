"""Several brokers on one machine for `tidelog up --brokers`: started together, watched over, stopped together.

A broker that ends by itself is reported and started again after a short pause, so that one sees what its loss means;
one that cannot stay up is left alone. Brokers end with this process, however it ends.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tidelog.broker.child import BrokerProcess
from tidelog.cli.failures import BadInput
from tidelog.cli.output import say
from tidelog.model.local_cluster import NodePorts, local_cluster

READY_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.1
RESTART_SECONDS: Final = 3.0
# A broker that ends sooner than this after its start did not get up; after so many times it is left alone.
STAYED_UP_SECONDS: Final = 10.0
RESTARTS_IN_VAIN_MAX: Final = 3


class LocalCluster:
    """The brokers, and what is to be done when one of them ends."""

    def __init__(
        self,
        data: Path,
        host: str,
        ports: list[NodePorts],
        config: Mapping[str, str],
        *,
        metrics_port: int | None,
        log_level: str,
    ) -> None:
        folders = [str(data / f"broker-{number}") for number in range(1, len(ports) + 1)]
        settings = local_cluster(ports, data=folders, host=host, config=config)
        for index, properties in enumerate(settings):
            if metrics_port is not None:
                properties["tidelog.metrics.port"] = str(metrics_port + index)
        self._brokers = [
            BrokerProcess(number, properties, data, log_level=log_level)
            for number, properties in enumerate(settings, 1)
        ]
        self._started: dict[int, float] = {}
        self._in_vain: dict[int, int] = {}
        self._start_at: dict[int, float] = {}
        self._given_up: set[int] = set()
        self.addresses = ",".join(f"{host}:{node.client}" for node in ports)

    def run(self, on_ready: Callable[[], None], *, restart: bool = True) -> int:
        """Until SIGINT or SIGTERM, or until none is left; the exit code."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        try:
            for broker in self._brokers:
                self._start(broker)
            self._wait_until_ready()
            on_ready()
            while len(self._given_up) < len(self._brokers):
                time.sleep(POLL_SECONDS)
                for broker in self._brokers:
                    self._look_after(broker, restart)
            say("No broker is left.")
            return 1
        except KeyboardInterrupt:
            return 0
        finally:
            self._stop()

    def _start(self, broker: BrokerProcess) -> None:
        self._started[broker.node_id] = time.monotonic()
        broker.start()

    def _wait_until_ready(self) -> None:
        from tidelog.client.admin import Admin
        from tidelog.client.cluster import Cluster
        from tidelog.client.errors import ClientError

        end = time.monotonic() + READY_SECONDS_MAX
        while True:
            for broker in self._brokers:
                if not broker.is_alive:
                    raise BadInput(f"Broker {broker.node_id} did not start.\n{broker.log_tail()}")
            try:
                with Cluster(self.addresses, client_id="tidelog-up", timeout_s=POLL_SECONDS * 10) as cluster:
                    if len(Admin(cluster).describe_cluster().brokers) == len(self._brokers):
                        return
            except ClientError:
                pass
            if time.monotonic() > end:
                raise BadInput("The brokers did not find each other.\n" + self._brokers[0].log_tail())
            time.sleep(POLL_SECONDS)

    def _look_after(self, broker: BrokerProcess, restart: bool) -> None:
        node = broker.node_id
        if broker.is_alive or node in self._given_up:
            return
        now = time.monotonic()
        if node not in self._start_at:
            stayed = now - self._started[node] >= STAYED_UP_SECONDS
            self._in_vain[node] = 0 if stayed else self._in_vain.get(node, 0) + 1
            self._start_at[node] = now + RESTART_SECONDS
            how = _how_it_ended(broker.exit_code or 0)
            if not restart or self._in_vain[node] > RESTARTS_IN_VAIN_MAX:
                self._given_up.add(node)
                del self._start_at[node]
                say(f"Broker {node} {how}. It is left alone; its log is {broker.log_path}.")
            else:
                say(f"Broker {node} {how}. It is started again in {RESTART_SECONDS:.0f} s.")
        elif now >= self._start_at[node]:
            del self._start_at[node]
            say(f"Broker {node} starts again.")
            self._start(broker)

    def _stop(self) -> None:
        running = [broker for broker in self._brokers if broker.is_alive]
        for broker in running:
            broker.ask_to_stop()
        for broker in running:
            try:
                broker.wait()
            except TimeoutError as error:
                say(f"{error}; it was killed.")


def _how_it_ended(exit_code: int) -> str:
    if exit_code < 0:
        return f"was ended by {signal.Signals(-exit_code).name}"
    return f"ended with {exit_code}"


def run_local_cluster(
    brokers: int,
    data: str,
    host: str,
    port: int,
    config: Mapping[str, str],
    *,
    metrics_port: int | None,
    log_level: str,
    restart: bool,
    on_ready: Callable[[str], None],
) -> int:
    """Brokers at `port` and those after it, their controllers at the next ones, metrics likewise. The exit code."""
    from tidelog.cli.running import refuse_taken_port

    if port == 0:
        raise BadInput("Several brokers need ports of their own: give the first one with --port.")
    for number in range(port, port + 2 * brokers):
        refuse_taken_port(host, number)
    ports = [NodePorts(port + index, port + brokers + index) for index in range(brokers)]
    folder = Path(data).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    made = LocalCluster(folder, host, ports, config, metrics_port=metrics_port, log_level=log_level)
    code = made.run(lambda: on_ready(made.addresses), restart=restart)
    sys.stderr.flush()
    return code
