"""Views of typed topics: a name, a topic and the format of its values, kept in a TOML file that people may edit.

`tidelog sql` creates, lists and drops them and uses them by name in queries, whichever engine runs.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from tidelog.cli.failures import BadInput
from tidelog.client.typed.format import PLAIN, InvalidFormat, ValueFormat, value_format

VIEWS_VARIABLE: Final = "TIDELOG_VIEWS"


@dataclass(frozen=True, slots=True)
class View:
    """What a name in a query stands for. Empty texts are what was not said."""

    topic: str
    format: str
    schema: str = ""
    schema_file: str = ""
    message: str = ""
    wire_format: str = PLAIN

    def value_format(self, name: str) -> ValueFormat:
        """BadInput when the schema cannot be used."""
        try:
            return value_format(
                self.format, self.schema or None, self.schema_file or None, self.message or None, self.wire_format
            )
        except InvalidFormat as error:
            raise BadInput(f"View '{name}': {error}.") from None


def default_views_path() -> Path:
    """Where views are kept unless somebody says otherwise."""
    given = os.environ.get(VIEWS_VARIABLE)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "tidelog" / "views.toml"


def read_views(path: Path) -> dict[str, View]:
    """All views of a file; none when there is no file. BadInput names what cannot be read."""
    try:
        tree = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is no TOML: {error}.") from None
    known = {field.name for field in fields(View)}
    views = {}
    for name, told in tree.items():
        if not isinstance(told, dict) or not {"topic", "format"} <= told.keys() <= known:
            raise BadInput(f"{path} has no view in [{name}]: it needs topic and format; others are {', '.join(known)}.")
        views[name] = View(**told)
    return views


def write_views(path: Path, views: Mapping[str, View]) -> None:
    """Replace the file in one step."""
    lines = []
    for name, view in sorted(views.items()):
        lines.append(f"[{_text(name)}]")
        lines += [f"{key} = {_text(value)}" for key, value in asdict(view).items() if value]
        lines.append("")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text("\n".join(lines))
    temporary.replace(path)


def _text(value: str) -> str:
    """A basic string of TOML, which JSON's strings are, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
