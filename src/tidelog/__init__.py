"""Tidelog: a Kafka-compatible streaming platform that is a Python package.

`tidelog.Broker` is loaded on first use, so that `import tidelog` and the command line stay quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.model.version import __version__

__all__ = ["Broker", "__version__"]

if TYPE_CHECKING:
    from tidelog.testing.embedded import Broker


def __getattr__(name: str) -> Any:
    if name == "Broker":
        from tidelog.testing.embedded import Broker

        return Broker
    raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
