"""How the command line starts: quickly, with help everywhere, and with the exit codes it promises."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tidelog.cli.commands import COMMANDS, run
from tidelog.cli.kafka.names import KAFKA_COMMANDS
from tidelog.cli.kafka.run import run_kafka_command

PROJECT = Path(__file__).resolve().parents[3]
# What is too slow to import for a line of help.
HEAVY = ("asyncio", "rich", "structlog", "prometheus_client", "tidelog.broker", "tidelog.client", "tidelog.wire", "ssl")


def imported_by(*arguments: str) -> set[str]:
    code = (
        "import sys; sys.argv = ['tidelog', *sys.argv[1:]]\n"
        "from tidelog.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["topics", "--help"], ["consume", "--help"]])
def test_help_imports_nothing_that_is_slow(arguments: list[str]) -> None:
    loaded = imported_by(*arguments)
    assert not [name for name in HEAVY if name in loaded]


def test_kafka_commands_start_without_click_and_rich() -> None:
    assert not {"click", "rich"} & imported_by("kafka-topics", "--help")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    assert "Usage: tidelog " + command in capsys.readouterr().out


def test_the_list_of_commands_says_what_each_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown and line in shown for name, (_, _, line) in COMMANDS.items())


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["topics"],
        ["topics", "create"],
        ["topics", "create", "t", "--partitions", "0"],
        ["topics", "list", "--format", "xml"],
        ["consume", "t", "--from-beginning", "--offset", "3"],
        ["consume", "t", "--from-time", "yesterday"],
        ["configs", "describe"],
        ["configs", "alter", "-t", "t"],
        ["configs", "alter", "-t", "t", "-s", "no-equals-sign"],
        ["delete-records", "t"],
        ["dump", "codec", "NoSuchApi"],
        ["server-start"],
        ["server-start", "no-such-file.properties"],
        ["produce", "t", "--acks", "2"],
    ],
)
def test_a_wrong_call_ends_with_2_and_says_why(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Usage: tidelog" in captured.err


@pytest.mark.parametrize("command", sorted(KAFKA_COMMANDS))
def test_every_kafka_command_shows_its_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) if command not in ("kafka-server-start",) else pytest.MonkeyPatch.context():
        run_kafka_command(command, ["--help"])
    captured = capsys.readouterr()
    assert "usage" in (captured.out + captured.err).lower()


def test_every_kafka_command_has_its_files_and_entry_point() -> None:
    scripts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["scripts"]
    for command in KAFKA_COMMANDS:
        assert scripts[f"{command}.sh"] == "tidelog.cli.kafka.run:main"
        script = PROJECT / "bin" / f"{command}.sh"
        assert f" {command} " in script.read_text()
        assert script.stat().st_mode & 0o111
        assert (PROJECT / "bin" / command).resolve() == script.resolve()


def test_a_broker_that_is_not_there_is_explained_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["topics", "list"],
        ["consume", "t"],
        ["cluster"],
        ["offsets", "t"],
        ["configs", "describe", "-t", "t"],
    ):
        assert run([*arguments, "-b", "127.0.0.1:1", "--format", "json"]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err == "Error: Cannot connect to 127.0.0.1:1: connection refused. Is a broker running there?\n"


def test_a_folder_of_one_broker_is_not_opened_by_a_cluster_nor_the_other_way_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    single, several = tmp_path / "single", tmp_path / "several"
    for folder in (single, several):
        folder.mkdir()
    (single / "meta.properties").touch()
    for number in (1, 2, 3):
        (several / f"broker-{number}.properties").touch()

    assert run(["up", "--data", str(single), "--brokers", "3"]) == 1
    assert "holds the data of a single broker" in capsys.readouterr().err
    for wrong in ("1", "2", "4"):
        assert run(["up", "--data", str(several), "--brokers", wrong]) == 1
        assert "start it with --brokers 3" in capsys.readouterr().err
