"""Draws docs/session.svg, the picture in the README: real commands against a real broker, and what they print."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

import tidelog

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 100
COMMANDS = (
    ("tidelog topics create orders --partitions 3", ""),
    ("tidelog produce orders --key-separator :", "ann:3 apples\nbob:1 pear\nann:2 plums\ncyd:7 figs\n"),
    ("tidelog consume orders --from-beginning --max 4", ""),
    ("tidelog topics describe orders", ""),
    ("tidelog offsets orders", ""),
    ("kafka-topics.sh --bootstrap-server {servers} --describe --topic orders", ""),
)


def run(command: str, stdin: str, bootstrap_servers: str) -> str:
    environment = {
        **os.environ,
        "TIDELOG_BOOTSTRAP_SERVERS": bootstrap_servers,
        "FORCE_COLOR": "1",
        "COLUMNS": str(COLUMNS),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    words = command.format(servers=bootstrap_servers).split()
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, env=environment, check=True)
    return done.stdout + done.stderr


def main() -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    with tidelog.Broker() as broker:
        console.print(Text("$ tidelog up", style="bold"))
        console.print(Text("connect to 127.0.0.1:9092", style="green"))
        for command, stdin in COMMANDS:
            typed = f" <<< {stdin.splitlines()[0]!r} …" if stdin else ""
            shown = f"$ {command.format(servers='127.0.0.1:9092')}{typed}"
            console.print(Text(shown, style="bold"))
            console.print(Text.from_ansi(run(command, stdin, broker.bootstrap_servers).rstrip()))
    picture = console.export_svg(title="tidelog", theme=MONOKAI)
    # Without the web fonts: the picture is whole by itself.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    (ROOT / "docs" / "session.svg").write_text(picture)


if __name__ == "__main__":
    main()
