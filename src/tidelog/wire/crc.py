"""The CRC-32C (Castagnoli) of record batches and snapshots, of any buffer and without a copy."""

from __future__ import annotations

from fastcrc.crc32 import iscsi as crc32c

__all__ = ["crc32c"]
