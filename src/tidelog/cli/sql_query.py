"""A query over topics, parsed by sqlglot: which tables it names, as of when, and its text for the engine.

`AS OF 'time'`, `AS OF OFFSET n` and `latest(topic)` are ours: they are taken out, and the table gets a name of its own
under which `sql_engines.py` registers what it stands for. Pure. Needs `tidelog[sql]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from tidelog.cli.failures import BadInput

LATEST: Final = "latest"
TABLE_PREFIX: Final = "tidelog_table_"
# "AS OF" stands for the time, as most people mean it; the longer phrase is tried first.
_PHRASES: Final = {("AS", "OF", "OFFSET"): "VERSION", ("AS", "OF"): "TIMESTAMP"}


@dataclass(frozen=True, slots=True)
class TableUse:
    """A topic or view as a query names it: before an offset of each partition, or before a time."""

    name: str
    before_offset: int | None = None
    before_time: str | None = None
    is_latest: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """The text for the engine, and what stands behind each of the tables in it."""

    text: str
    tables: dict[str, TableUse]


def parse_query(text: str, dialect: str) -> Query:
    """BadInput for what is no query: SQL that cannot be parsed, or a statement that would change something."""
    try:
        from sqlglot import exp
        from sqlglot.errors import SqlglotError
    except ImportError:
        raise BadInput("SQL over topics needs a parser: pip install 'tidelog[sql]'.") from None
    try:
        statements = [found for found in _dialect(dialect).parse(text) if found is not None]
    except SqlglotError as error:
        raise BadInput(f"This is no SQL: {_first_error(error)}.") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise BadInput("Topics can only be asked: write one SELECT.")
    [query] = statements
    uses: dict[TableUse, str] = {}
    for table in list(_topics_in(query)):
        use = _use_of(table)
        name = uses.setdefault(use, f"{TABLE_PREFIX}{len(uses)}")
        _rename(table, name, use)
    return Query(query.sql(dialect=dialect), {name: use for use, name in uses.items()})


def _topics_in(query: Any) -> Iterator[Any]:
    """The tables that are no common table expression of the query itself."""
    from sqlglot import exp

    own = {expression.alias_or_name.lower() for expression in query.find_all(exp.CTE)}
    for table in query.find_all(exp.Table):
        is_function = isinstance(table.this, exp.Func) and not _is_latest(table)
        if not is_function and (table.db or table.name.lower() not in own):
            yield table


def _is_latest(table: Any) -> bool:
    from sqlglot import exp

    return isinstance(table.this, exp.Anonymous) and table.this.name.lower() == LATEST


def _use_of(table: Any) -> TableUse:
    from sqlglot import exp

    is_latest = _is_latest(table)
    if is_latest:
        arguments = table.this.expressions
        if len(arguments) != 1:
            raise BadInput("latest() takes one topic or view, as in: FROM latest(orders).")
        name = _dotted(arguments[0])
    else:
        name = ".".join(part.name for part in table.parts)
    version = table.args.get("version")
    if version is None:
        return TableUse(name, is_latest=is_latest)
    moment = version.expression
    spelled = str(moment.name) if isinstance(moment, exp.Literal) else ""
    if version.args.get("kind") != "AS OF" or moment is None:
        raise BadInput(f"'{name}' can be asked AS OF a time or AS OF OFFSET a number.")
    if version.name == "VERSION":
        if not spelled.isdigit():
            raise BadInput(f"'{name}' AS OF OFFSET needs a number, not {moment.sql()}.")
        return TableUse(name, before_offset=int(spelled), is_latest=is_latest)
    if not spelled:
        raise BadInput(f"'{name}' AS OF needs a time such as '2026-01-31T12:00' or '-1h', not {moment.sql()}.")
    return TableUse(name, before_time=spelled, is_latest=is_latest)


def _dotted(argument: Any) -> str:
    from sqlglot import exp

    if isinstance(argument, exp.Column):
        return ".".join(part.name for part in argument.parts)
    return str(argument.name)


def _rename(table: Any, name: str, use: TableUse) -> None:
    """Let the table be called what the engine knows, and still be called in the query what the user wrote."""
    from sqlglot import exp

    if not table.alias:
        called = use.name if _is_latest(table) or len(table.parts) == 1 else table.name
        table.set("alias", exp.TableAlias(this=exp.to_identifier(called, quoted=True)))
    for part in ("db", "catalog", "version"):
        table.set(part, None)
    table.set("this", exp.to_identifier(name))


@lru_cache
def _dialect(name: str) -> Any:
    """The engine's dialect with our AS OF."""
    from sqlglot.dialects.dialect import Dialect

    engine = Dialect.get_or_raise(name)
    parser = type(engine).parser_class
    phrases = {**_PHRASES, **parser.VERSION_PHRASES}
    with_as_of = type("ParserWithAsOf", (parser,), {"VERSION_PHRASES": phrases})
    return type(f"{name}_over_topics", (type(engine),), {"parser_class": with_as_of})()


def _first_error(error: Exception) -> str:
    found = getattr(error, "errors", None)
    if found:
        first = found[0]
        return f"{first['description'].rstrip('.')} at line {first['line']}, column {first['col']}"
    return str(error).splitlines()[0].rstrip(".")
