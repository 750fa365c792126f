"""Tidelog: a Kafka-compatible streaming platform that is a Python package.

What it offers is loaded on first use, so that `import tidelog` and the command line stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidelog.model.version import __version__

__all__ = ["Broker", "Cluster", "__version__"]

if TYPE_CHECKING:
    from tidelog.testing.cluster import Cluster
    from tidelog.testing.embedded import Broker

_MODULES: Final = {
    "Broker": "tidelog.testing.embedded",
    "Cluster": "tidelog.testing.cluster",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
