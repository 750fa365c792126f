"""Structured logs: events with fields, readable lines on a terminal, JSON lines when asked. Inside another program
they go to its `logging`, under the name "tidelog".
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

LEVELS = logging.getLevelNamesMapping()


def log_to_stderr(level: str = "info", as_json: bool = False) -> None:
    """For a broker process: stdout stays free for what the user asked to see."""
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
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def log_to_logging() -> None:
    """For an embedded broker: the program decides what it wants to see."""
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.stdlib.render_to_log_kwargs,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=_TidelogLoggers(),
    )


class _TidelogLoggers:
    def __call__(self, *args: Any) -> logging.Logger:
        return logging.getLogger("tidelog")
