"""What `tidelog demo` shows: a broker in a process of its own, one thread that writes orders, one that reads them.

Each thread has its own connections. The numbers for the display are plain attributes, written by one thread each.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Final

from tidelog.cli.demo_orders import ORDERS, Check, any_order
from tidelog.cli.failures import BadInput

if TYPE_CHECKING:
    from tidelog.client.core.record import ConsumerRecord

PARTITIONS: Final = 3
BATCH_RECORDS: Final = 25
BATCH_PAUSE_S: Final = 0.1
SHOWN_RECORDS: Final = 8
START_SECONDS_MAX: Final = 30.0
STOP_SECONDS_MAX: Final = 30.0
THREAD_SECONDS_MAX: Final = 5.0


class BrokerProcess:
    """The broker that the demo starts and stops."""

    def __init__(self, data: str, host: str, port: int, metrics_port: int | None) -> None:
        self.address = f"{host}:{port}"
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed in `stop`)
        command = [sys.executable, "-m", "tidelog", "up", "--data", data, "--host", host, "--port", str(port)]
        # What Spark writes beside it, it writes exactly once.
        command += ["-c", "transaction.two.phase.commit.enable=true"]
        if metrics_port is not None:
            command += ["--metrics-port", str(metrics_port)]
        # A session of its own: Ctrl-C is for the demo, which stops the broker last.
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._errors, stderr=self._errors, start_new_session=True
        )

    def wait_until_ready(self) -> None:
        """Return when it answers; BadInput with its own words when it does not start."""
        from tidelog.client.cluster import Cluster
        from tidelog.client.errors import ClientError

        end = time.monotonic() + START_SECONDS_MAX
        while True:
            if self._process.poll() is not None:
                self._errors.seek(0)
                words = self._errors.read().decode(errors="replace").strip()
                raise BadInput(f"The broker did not start.\n{words}")
            try:
                with Cluster(self.address) as cluster:
                    cluster.refresh([], cluster.deadline(START_SECONDS_MAX))
                return
            except ClientError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def stop(self) -> None:
        """Stop it as a service manager does."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


class Stream:
    """Orders on their way through the broker."""

    def __init__(self, address: str, check: Check) -> None:
        self.written = 0
        self.read = 0
        self.read_bytes = 0
        self.end_offset = 0
        self.latest: deque[ConsumerRecord] = deque(maxlen=SHOWN_RECORDS)
        self.failure: Exception | None = None
        self._address = address
        self._check = check
        self._stop_writing = threading.Event()
        self._stop_reading = threading.Event()
        # Set when the reader knows where the topic ends: what is written from then on it will see.
        self._reading = threading.Event()
        self._writer = threading.Thread(target=self._run, args=(self._write,), name="demo-writer", daemon=True)
        self._reader = threading.Thread(target=self._run, args=(self._read,), name="demo-reader", daemon=True)

    def start(self) -> None:
        """Create the topic unless it is there, and let records flow."""
        from tidelog.client.admin import Admin
        from tidelog.client.cluster import Cluster
        from tidelog.client.core.described import NewTopic
        from tidelog.client.errors import Rejected
        from tidelog.model.errors import ErrorCode

        with Cluster(self._address) as cluster:
            answer = Admin(cluster).create_topics([NewTopic(ORDERS, PARTITIONS)])[ORDERS]
        if isinstance(answer, Rejected) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise answer
        self._reader.start()
        self._reading.wait(THREAD_SECONDS_MAX)
        self._writer.start()

    def stop(self) -> None:
        """Let the writer end, then the reader once it has all that was written."""
        self._stop_writing.set()
        if self._writer.is_alive():
            self._writer.join(THREAD_SECONDS_MAX)
        end = time.monotonic() + THREAD_SECONDS_MAX
        while self._reader.is_alive() and self.read < self.written and time.monotonic() < end:
            time.sleep(BATCH_PAUSE_S / 10)
        self._stop_reading.set()
        if self._reader.is_alive():
            self._reader.join(THREAD_SECONDS_MAX)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            # Shown by the display's thread, which ends the demo.
            self.failure = self.failure or error

    def _write(self) -> None:
        from tidelog.client.blocking.producer import Producer
        from tidelog.client.core.record import RecordMetadata
        from tidelog.client.errors import ClientError

        def count(metadata: RecordMetadata | None, error: ClientError | None) -> None:
            if error is not None:
                self.failure = self.failure or error
            else:
                self.written += 1

        chance = random.Random()
        with Producer(bootstrap_servers=self._address) as producer:
            while not self._stop_writing.wait(BATCH_PAUSE_S):
                for _ in range(BATCH_RECORDS):
                    order = any_order(chance)
                    producer.send(ORDERS, order.value(), order.product.encode(), on_delivery=count)
                producer.flush()

    def _read(self) -> None:
        from tidelog.client.blocking.consumer import Consumer

        wait_ms = int(BATCH_PAUSE_S * 1000)
        with Consumer(bootstrap_servers=self._address, fetch_max_wait_ms=wait_ms) as consumer:
            partitions = consumer.partitions_for(ORDERS)
            consumer.assign(partitions)
            consumer.seek_to_end()
            for partition in partitions:
                consumer.position(partition)
            self._reading.set()
            while not self._stop_reading.is_set():
                records = consumer.poll(BATCH_PAUSE_S)
                self.latest.extend(records[-SHOWN_RECORDS:])
                self.read += len(records)
                for record in records:
                    self._check.count((record.key or b"").decode(errors="replace"), record.timestamp_ms)
                self.read_bytes += sum(len(record.value or b"") + len(record.key or b"") for record in records)
                self.end_offset = sum(consumer.high_watermark(partition) or 0 for partition in partitions)
