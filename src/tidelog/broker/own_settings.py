"""The settings that Apache Kafka does not have. They begin with `tidelog.` and stand in the same properties file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.log.room import RoomLimits
from tidelog.model.names import is_internal
from tidelog.model.settings import Range, Setting, SettingType, one_of, parse_value, table

MEBIBYTE: Final = 1024 * 1024
GIBIBYTE: Final = 1024 * MEBIBYTE
EVERY_TOPIC: Final = "*"

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
            "tidelog.cluster.id",
            SettingType.STRING,
            None,
            None,
            "The id of the cluster, for directories that are not formatted; every node of it must have the same.",
        ),
        Setting(
            "tidelog.event.loop",
            SettingType.STRING,
            "auto",
            one_of("auto", "standard"),
            "The event loop: auto takes uvloop when it is installed.",
        ),
        Setting(
            "tidelog.disk.free.min.percent",
            SettingType.DOUBLE,
            "5",
            Range(0, 100),
            "A log directory whose file system has a smaller share free takes no more records from producers.",
        ),
        Setting(
            "tidelog.disk.free.min.bytes",
            SettingType.LONG,
            str(GIBIBYTE),
            Range(0),
            "The same for a number of bytes; of a small file system a tenth stands for them. Both 0: until it is full.",
        ),
        Setting(
            "tidelog.two.phase.ids.max",
            SettingType.INT,
            "1000",
            Range(0),
            "Transactional ids of each partition of __transaction_state that may use two-phase commit.",
        ),
        Setting(
            "tidelog.log.archive.dir",
            SettingType.STRING,
            None,
            None,
            "Where segments go that retention lets go. Not set: they are deleted.",
        ),
        Setting(
            "tidelog.log.archive.topics",
            SettingType.LIST,
            EVERY_TOPIC,
            None,
            "The topics whose segments are archived; * is all but the internal ones.",
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class OwnSettings:
    metrics_port: int | None
    metrics_host: str
    memory_in_flight_bytes: int
    room_limits: RoomLimits
    archive_dir: str | None
    archive_topics: tuple[str, ...]
    two_phase_ids_max: int
    cluster_id: str | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> OwnSettings:
        """Raises ProtocolError(INVALID_CONFIG) that names the key, the value and what is allowed."""
        values = {
            name: parse_value(setting, properties.get(name, setting.default)) for name, setting in OWN_SETTINGS.items()
        }
        port = values["tidelog.metrics.port"]
        memory = values["tidelog.memory.in.flight.bytes"]
        percent, free_bytes = values["tidelog.disk.free.min.percent"], values["tidelog.disk.free.min.bytes"]
        assert (port is None or isinstance(port, int)) and isinstance(memory, int)
        assert isinstance(percent, float) and isinstance(free_bytes, int)
        folder, topics = values["tidelog.log.archive.dir"], values["tidelog.log.archive.topics"]
        assert (folder is None or isinstance(folder, str)) and isinstance(topics, tuple)
        two_phase_ids_max = values["tidelog.two.phase.ids.max"]
        assert isinstance(two_phase_ids_max, int)
        limits = RoomLimits(percent, free_bytes)
        cluster_id = values["tidelog.cluster.id"]
        assert cluster_id is None or isinstance(cluster_id, str)
        host = str(values["tidelog.metrics.host"])
        return cls(port, host, memory, limits, folder or None, topics, two_phase_ids_max, cluster_id)

    def archives(self, topic: str) -> bool:
        """Whether expired segments of this topic are kept in the archive."""
        if self.archive_dir is None or is_internal(topic):
            return False
        return EVERY_TOPIC in self.archive_topics or topic in self.archive_topics
