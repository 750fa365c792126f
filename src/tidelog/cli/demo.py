"""`tidelog demo`: a broker, orders flowing through it, Spark that sums them up, to look at. `make run` starts it."""

from __future__ import annotations

import signal
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Final

import click

from tidelog.cli.demo_orders import Check
from tidelog.cli.demo_pipeline import DemoPipeline
from tidelog.cli.demo_stream import BrokerProcess, Stream
from tidelog.cli.output import say
from tidelog.cli.server import DEFAULT_DATA, DEFAULT_PORT

if TYPE_CHECKING:
    from rich.console import RenderableType

METRICS_PORT: Final = 9644
REFRESHES_PER_SECOND: Final = 5
RATE_SECONDS: Final = 3.0
LINE_SECONDS: Final = 1.0


@click.command()
@click.option(
    "--data", type=click.Path(file_okay=False), default=DEFAULT_DATA, show_default=True, help="Where logs are kept."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=DEFAULT_PORT, show_default=True)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    default=METRICS_PORT,
    show_default=True,
    help="Prometheus metrics; left out when taken.",
)
@click.option("--seconds", type=click.FloatRange(min=0), help="End by itself after this long.")
@click.option("--spark/--no-spark", default=True, help="Let Spark sum up the orders in a second topic.")
def demo(data: str, host: str, port: int, metrics_port: int, seconds: float | None, spark: bool) -> int:
    """Start a broker and watch orders flow through it, and through Spark if it is there. Ctrl-C stops everything."""
    from tidelog.cli.running import port_is_taken, refuse_taken_port

    refuse_taken_port(host, port)
    # A service manager's stop and a closed terminal: the same tidy end as with Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with_metrics = None if port_is_taken(host, metrics_port) else metrics_port
    broker = BrokerProcess(data, host, port, with_metrics)
    check = Check()
    stream = Stream(broker.address, check)
    pipeline = DemoPipeline(broker.address, data, check) if spark else None
    try:
        broker.wait_until_ready()
        stream.start()
        if pipeline is not None:
            pipeline.start()
        view = View(
            stream,
            broker.address,
            data,
            None if with_metrics is None else f"http://{host}:{with_metrics}/metrics",
            pipeline,
        )
        (view.live if sys.stdout.isatty() else view.lines)(seconds)
    except KeyboardInterrupt:
        pass
    finally:
        if pipeline is not None:
            pipeline.stop()
        stream.stop()
        broker.stop()
    if stream.failure is not None:
        raise stream.failure
    say(f"Stopped. {stream.written} orders written, {stream.read} read; the data is in {data}.")
    return 0 if stream.read else 1


class View:
    """The numbers as they are now, for a terminal or as lines."""

    def __init__(
        self, stream: Stream, address: str, data: str, metrics_url: str | None, pipeline: DemoPipeline | None
    ) -> None:
        self._stream = stream
        self._address = address
        self._data = data
        self._metrics_url = metrics_url
        self._pipeline = pipeline
        # (time, written, read, bytes read) of the last seconds.
        self._samples = deque([(time.monotonic(), 0, 0, 0)])

    def lines(self, seconds: float | None) -> None:
        """One line a second, for logs and pipes."""
        print(f"Tidelog listens on {self._address}; metrics: {self._metrics_url or 'off'}", flush=True)
        end = None if seconds is None else time.monotonic() + seconds
        while self._goes_on(end):
            time.sleep(LINE_SECONDS if end is None else max(0.0, min(LINE_SECONDS, end - time.monotonic())))
            written, read, _ = self._rates()
            stream = self._stream
            last = (stream.latest[-1].value or b"").decode() if stream.latest else "-"
            print(
                f"written {stream.written} ({written:.0f}/s)  read {stream.read} ({read:.0f}/s)  "
                f"end offset {stream.end_offset}  last {last}",
                flush=True,
            )
            if self._pipeline is not None:
                from tidelog.cli.demo_picture import checked

                results = f"results {self._pipeline.results}, {checked(self._pipeline)}"
                print(f"Spark: {self._pipeline.status}  {results}", flush=True)

    def live(self, seconds: float | None) -> None:
        """A picture that moves."""
        from rich.live import Live

        end = None if seconds is None else time.monotonic() + seconds
        with Live(self.picture(), refresh_per_second=REFRESHES_PER_SECOND, transient=False) as live:
            while self._goes_on(end):
                time.sleep(1 / REFRESHES_PER_SECOND)
                live.update(self.picture())

    def _goes_on(self, end: float | None) -> bool:
        return self._stream.failure is None and (end is None or time.monotonic() < end)

    def _rates(self) -> tuple[float, float, float]:
        """Records written and read, and bytes read, per second."""
        stream = self._stream
        now = time.monotonic()
        self._samples.append((now, stream.written, stream.read, stream.read_bytes))
        while now - self._samples[0][0] > RATE_SECONDS and len(self._samples) > 2:
            self._samples.popleft()
        first, last = self._samples[0], self._samples[-1]
        passed = (last[0] - first[0]) or 1.0
        written, read, size = (float(last[index] - first[index]) / passed for index in (1, 2, 3))
        return written, read, size

    def picture(self) -> RenderableType:
        from tidelog.cli.demo_picture import picture

        return picture(self._stream, self._pipeline, self._address, self._data, self._metrics_url, self._rates())
