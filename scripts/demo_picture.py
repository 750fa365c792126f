"""Draws docs/demo.svg: what `make run` shows once Spark has summed up some windows of orders, from a real run of it."""

from __future__ import annotations

import io
import re
import socket
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from tidelog.cli.demo import View
from tidelog.cli.demo_orders import Check
from tidelog.cli.demo_pipeline import DemoPipeline
from tidelog.cli.demo_stream import BrokerProcess, Stream

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 100
AGREEING_MIN = 14
SECONDS_MAX = 600.0
HOST = "127.0.0.1"
# As it is for whoever runs it; the picture is drawn beside whatever runs on these ports.
SHOWN_PORTS = ("9092", "9644")
SHOWN_DATA = "/srv/tidelog/tidelog-data"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def main() -> None:
    port, metrics_port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as data:
        check = Check()
        broker = BrokerProcess(data, HOST, port, metrics_port)
        stream, pipeline = Stream(broker.address, check), DemoPipeline(broker.address, data, check)
        try:
            broker.wait_until_ready()
            stream.start()
            pipeline.start()
            view = View(stream, broker.address, data, f"http://{HOST}:{metrics_port}/metrics", pipeline)
            end = time.monotonic() + SECONDS_MAX
            while check.equal < AGREEING_MIN and time.monotonic() < end:
                time.sleep(1)
                view.picture()
            console = Console(
                record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
            )
            console.print(view.picture())
        finally:
            pipeline.stop()
            stream.stop()
            broker.stop()
        picture = console.export_svg(title="make run", theme=MONOKAI)
        assert check.equal >= AGREEING_MIN and not check.different, (check.equal, check.different)
        # Without the web fonts: the picture is whole by itself.
        picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
        for number, shown in zip((port, metrics_port), SHOWN_PORTS, strict=True):
            picture = picture.replace(f":{number}", f":{shown}")
        picture = picture.replace(str(Path(data).resolve()), SHOWN_DATA)
    (ROOT / "docs" / "demo.svg").write_text(picture)


if __name__ == "__main__":
    main()
