"""What the documents name is there: files, tests, links, commands with their options, what Python examples use."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tidelog.cli.commands import tidelog as main

PROJECT = Path(__file__).resolve().parents[2]
DOCUMENTS = [PROJECT / "README.md", PROJECT / "ARCHITECTURE.md", *sorted((PROJECT / "docs").rglob("*.md"))]
FOLDERS = ("src", "tests", "docs", "bench", "soak", "scripts", "examples")
SOURCES = ["hatch_build.py"] + [
    path.relative_to(PROJECT).as_posix()
    for folder in FOLDERS
    for path in (PROJECT / folder).rglob("*")
    if path.suffix in {".py", ".md", ".sh"}
]
TEXTS = {path.relative_to(PROJECT).as_posix(): path.read_text() for path in DOCUMENTS}
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"(?:^(?: {4})?|`)tidelog ([a-z][^`\n]*)", re.MULTILINE)

each_document = pytest.mark.parametrize("name", TEXTS)


@each_document
def test_every_link_leads_somewhere(name: str) -> None:
    folder = (PROJECT / name).parent
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", TEXTS[name])

    assert [link for link in links if not (folder / link).exists()] == []


@each_document
def test_every_file_that_is_named_exists(name: str) -> None:
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.(?:py|sh|md))`", TEXTS[name]))

    assert {file for file in named if not any(f"/{source}".endswith(f"/{file}") for source in SOURCES)} == set()


def test_every_test_that_is_named_exists() -> None:
    named = {test for text in TEXTS.values() for test in re.findall(r"`(test_[a-z0-9_]+)`", text)}
    tests = "\n".join(path.read_text() for path in (PROJECT / "tests").rglob("*.py"))
    files = {Path(source).stem for source in SOURCES}

    assert {test for test in named if test not in files and f"def {test}(" not in tests} == set()


def commands() -> Iterator[tuple[str, str]]:
    """Every command line of ours in a block of code or between backquotes, without its comment."""
    for name, text in TEXTS.items():
        for line in COMMAND.findall(text):
            yield name, re.sub(r"\s+#.*|….*|\[.*", "", line).strip()


@pytest.mark.parametrize(("name", "line"), sorted(set(commands())))
def test_every_command_and_option_exists(name: str, line: str) -> None:
    found: click.Command = main
    words = shlex.split(line)
    with click.Context(main) as context:
        while isinstance(found, click.Group) and words and not words[0].startswith("-"):
            alternatives = [found.get_command(context, each) for each in words.pop(0).split("|")]
            assert None not in alternatives, f"{name}: tidelog {line}"
            found = alternatives[0] or found
        options = {option for each in found.get_params(context) for option in (*each.opts, *each.secondary_opts)}

    assert {word for word in words if re.fullmatch(r"--[a-z-]+|-[a-z]", word)} - options == set()


def examples() -> Iterator[tuple[str, int, str]]:
    for name, text in TEXTS.items():
        for number, example in enumerate(PYTHON.findall(text)):
            yield name, number, example


@pytest.mark.parametrize(("name", "number", "example"), list(examples()))
def test_python_examples_use_what_is_there(name: str, number: int, example: str) -> None:
    tree = compile(example, f"{name} {number}", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    tidelog = importlib.import_module("tidelog")

    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                assert all(hasattr(importlib.import_module(module), each.name) for each in names), module
            case ast.Attribute(value=ast.Name(id="tidelog"), attr=attribute):
                assert hasattr(tidelog, attribute), attribute
