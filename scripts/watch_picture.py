"""Draws docs/watch.svg: `tidelog watch` on a real cluster of three, seconds after a broker was killed."""

from __future__ import annotations

import io
import re
import threading
import time
from pathlib import Path

from confluent_kafka import Producer
from rich.console import Console
from rich.terminal_theme import MONOKAI

import tidelog
from tidelog.cli.watch_model import changes
from tidelog.cli.watch_picture import Picture, rates
from tidelog.cli.watch_probe import Watcher
from tidelog.client.admin import Admin
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.model.ids import TopicName

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 132
TOPICS = {"orders": 3, "payments": 2}
INTERVAL_S = 0.2
CALM_S = 4.0
AFTER_S = 6.0
DELAY_S = 0.03
RECORDS_AT_ONCE = 10
PAUSE_S = 0.005


def write(bootstrap_servers: str, stopped: threading.Event) -> None:
    """Records for all topics until told to stop, whatever befalls the brokers."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 20, "log_level": 0})
    number = 0
    while not stopped.is_set():
        for topic in TOPICS:
            for _ in range(RECORDS_AT_ONCE):
                number += 1
                producer.produce(topic, b"x" * 100, key=str(number))
        producer.poll(PAUSE_S)


def main() -> None:
    with tidelog.Cluster(3) as cluster:
        with Cluster(cluster.bootstrap_servers) as connected:
            Admin(connected).create_topics([NewTopic(TopicName(name), count, 3) for name, count in TOPICS.items()])
        cluster.wait_until_in_sync()
        stopped = threading.Event()
        threading.Thread(target=write, args=(cluster.bootstrap_servers, stopped), daemon=True).start()
        with Watcher(cluster.bootstrap_servers, topics=None, internal=False, interval_s=INTERVAL_S) as watcher:
            time.sleep(CALM_S)
            before = watcher.snapshot()
            cluster.kill(1)
            # So that there is something on its way when the picture is taken.
            cluster.delay(2, 3, DELAY_S)
            events: list[tuple[float, str]] = []
            end = time.monotonic() + AFTER_S
            earlier = before
            while time.monotonic() < end:
                time.sleep(INTERVAL_S)
                now = watcher.snapshot()
                events += [(now.at, sentence) for sentence in changes(before, now)]
                if now.at - earlier.at > 2.0:
                    earlier, speeds = now, rates(earlier, now)
                before = now
        stopped.set()
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Picture(now, speeds, events))
    picture = console.export_svg(title="tidelog watch", theme=MONOKAI)
    # Without the web fonts: the picture is whole by itself.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    (ROOT / "docs" / "watch.svg").write_text(picture)


if __name__ == "__main__":
    main()
