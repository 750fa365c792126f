"""Structured logs: events with fields, readable lines on a terminal, JSON lines when asked. Inside another program
they go to its `logging`, under the name "tidelog".

structlog, which does the work, takes longer to import than a broker takes to start, so it is loaded by the first event
that somebody wants to see.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

LEVELS = logging.getLevelNamesMapping()


class EventLog:
    """`log.info("what happened", field=value)`. There is one, `log`, for the whole process."""

    def __init__(self) -> None:
        self._logger: Any = None
        self._is_wanted: Callable[[int], bool] = lambda level: logging.getLogger("tidelog").isEnabledFor(level)
        self._configure: Callable[[], None] = _configure_for_logging

    def to_stderr(self, level: str = "info", *, as_json: bool = False) -> None:
        """For a broker process: stdout stays free for what the user asked to see."""
        lowest = LEVELS[level.upper()]
        self._logger = None
        self._is_wanted = lambda wanted: wanted >= lowest
        self._configure = lambda: _configure_for_stderr(lowest, as_json)

    def debug(self, event: str, **fields: object) -> None:
        if self._is_wanted(logging.DEBUG):
            self._get().debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        if self._is_wanted(logging.INFO):
            self._get().info(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        if self._is_wanted(logging.WARNING):
            self._get().warning(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        if self._is_wanted(logging.ERROR):
            self._get().error(event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        """An error with the traceback of the exception that is being handled."""
        if self._is_wanted(logging.ERROR):
            self._get().exception(event, **fields)

    def _get(self) -> Any:
        if self._logger is None:
            import structlog

            self._configure()
            self._logger = structlog.get_logger()
        return self._logger


def _configure_for_stderr(lowest: int, as_json: bool) -> None:
    import structlog

    renderer: Any
    if as_json:
        renderer = structlog.processors.JSONRenderer()
    elif sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer()
    else:
        renderer = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.dict_tracebacks if as_json else structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(lowest),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _configure_for_logging() -> None:
    """The program decides what it wants to see; its own structlog settings are left alone."""
    import structlog

    if structlog.is_configured():
        return
    structlog.configure(
        processors=[structlog.processors.format_exc_info, structlog.stdlib.render_to_log_kwargs],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=lambda *_: logging.getLogger("tidelog"),
    )


log = EventLog()
