"""The settings that Apache Kafka does not have. They begin with `tidelog.` and stand in the same properties file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.model.settings import Range, Setting, SettingType, one_of, parse_value, table

MEBIBYTE: Final = 1024 * 1024

OWN_SETTINGS: Final = table(
    [
        Setting(
            "tidelog.metrics.port",
            SettingType.INT,
            None,
            Range(0, 65535),
            "Port of the Prometheus endpoint /metrics; 0 takes a free one. Not set: no endpoint.",
        ),
        Setting("tidelog.metrics.host", SettingType.STRING, "127.0.0.1", None, "Address of the Prometheus endpoint."),
        Setting(
            "tidelog.memory.in.flight.bytes",
            SettingType.LONG,
            str(256 * MEBIBYTE),
            Range(MEBIBYTE),
            "Memory for large requests that are still arriving; a connection that would exceed it is closed.",
        ),
        Setting(
            "tidelog.event.loop",
            SettingType.STRING,
            "auto",
            one_of("auto", "standard"),
            "The event loop: auto takes uvloop when it is installed.",
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class OwnSettings:
    metrics_port: int | None
    metrics_host: str
    memory_in_flight_bytes: int

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> OwnSettings:
        """Raises ProtocolError(INVALID_CONFIG) that names the key, the value and what is allowed."""
        values = {
            name: parse_value(setting, properties.get(name, setting.default)) for name, setting in OWN_SETTINGS.items()
        }
        port = values["tidelog.metrics.port"]
        memory = values["tidelog.memory.in.flight.bytes"]
        assert (port is None or isinstance(port, int)) and isinstance(memory, int)
        return cls(port, str(values["tidelog.metrics.host"]), memory)
