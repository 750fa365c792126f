"""Reading the end of a transaction out of a control batch.

Called for control batches only, when they are appended and when a log is recovered; other kinds of control records are
not the log's business.
"""

from __future__ import annotations

from tidelog.wire.batch import Buffer
from tidelog.wire.control import ControlType, EndTransaction, read_control_type, read_end_transaction
from tidelog.wire.records import read_records
from tidelog.wire.small_batch import read_usual_marker


def read_marker(batch: Buffer) -> EndTransaction | None:
    """The marker in a control batch; None when it is another kind of record, or was cleaned away."""
    usual = read_usual_marker(batch)
    if usual is not None:
        return EndTransaction(*usual)
    records = read_records(batch, check_crc=False)
    if not records or read_control_type(records[0]) not in (ControlType.COMMIT, ControlType.ABORT):
        return None
    return read_end_transaction(records[0])
