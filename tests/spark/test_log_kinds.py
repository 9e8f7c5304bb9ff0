"""Log files that only Hudi writes: compacted blocks, rolled-back blocks, records with some of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chronolake_hudi import log_blocks, log_files
from chronolake_hudi.log_blocks import DeletedRecord
from chronolake_hudi.log_files import BlockType, HeaderKey, LogBlock
from chronolake_spark import columns, errors
from chronolake_spark.stored_slices import StoredFile
from tests.spark.test_log_merge import GROUP, Group, Row, upsert


def append(group: Group, name: str, *blocks: LogBlock) -> None:
    """Append a log file with these blocks to the slice."""
    content = b"".join(map(log_files.encode, blocks))
    (group.folder / name).write_bytes(content)
    log = StoredFile(name, len(content), 1, has_field_ids=False)
    stored = group.slices[GROUP]
    group.slices = {GROUP: msgspec.structs.replace(stored, logs=[*stored.logs, log])}


def records(group: Group, time: int, *rows: Row, compacted: Sequence[int] = ()) -> LogBlock:
    """A block with records of an instant, or of a log compaction of instants."""
    schema = group.format.schema
    block = log_blocks.avro_block(f"{time:017d}", schema, [_record(time, row) for row in rows])
    return _with_compacted(block, compacted)


def deletes(group: Group, time: int, *ids: int, compacted: Sequence[int] = ()) -> LogBlock:
    """A block that deletes keys, without ordering values."""
    deleted = [DeletedRecord(str(id), "") for id in ids]
    return _with_compacted(log_blocks.delete_block(f"{time:017d}", group.format.schema, deleted), compacted)


def _record(time: int, row: Row) -> dict[str, Any]:
    meta = {columns.RECORD_KEY: row[columns.RECORD_KEY], columns.COMMIT_TIME: f"{time:017d}"}
    meta |= {columns.PARTITION_PATH: "", columns.COMMIT_SEQNO: f"{time}_0_0", columns.FILE_NAME: "f"}
    return {**meta, **{name: row[name] for name in ("id", "value", "ts") if name in row}}


def _with_compacted(block: LogBlock, compacted: Sequence[int]) -> LogBlock:
    times = ",".join(f"{time:017d}" for time in compacted)
    return with_header(block, HeaderKey.COMPACTED_BLOCK_TIMES, times) if compacted else block


def with_header(block: LogBlock, key: HeaderKey, text: str) -> LogBlock:
    """The block with one more entry in its header."""
    return msgspec.structs.replace(block, header={**block.header, key: text})


@pytest.fixture(params=["ts", None], ids=["event-time", "commit-time"])
def group(request: pytest.FixtureRequest, tmp_path: Path) -> Group:
    """A group with a base file with the records 1, 2 and 3."""
    group = Group(tmp_path / "t", ordering_field=request.param)
    group.write(10, *(upsert(id, 0, 5) for id in (1, 2, 3)))
    group.compact(10)
    return group


def test_blocks_that_a_log_compaction_has_replaced_are_not_read_twice(group: Group) -> None:
    append(group, "a", deletes(group, 11, 1))
    append(group, "b", records(group, 12, upsert(1, 12, 6), upsert(2, 12, 6)))
    # The compaction keeps the record that was inserted again, and forgets that it was deleted before.
    append(group, "c", records(group, 14, upsert(1, 12, 6), upsert(2, 12, 6), compacted=[12, 11]))

    assert group.values() == {1: 12, 2: 12, 3: 0}


def test_a_block_that_a_log_compaction_does_not_know_is_later_than_what_it_has_replaced(group: Group) -> None:
    append(group, "a", records(group, 11, upsert(1, 11, 6), upsert(2, 11, 6), upsert(3, 11, 6)))
    append(group, "b", records(group, 12, upsert(1, 12, 6)))
    append(group, "c", deletes(group, 12, 2))
    append(group, "d", records(group, 14, *(upsert(id, 11, 6) for id in (1, 2, 3)), compacted=[11]))
    assert group.values() == {1: 12, 3: 11}

    append(group, "e", records(group, 13, upsert(3, 13, 6)))
    # A compaction of a compaction, with the delete of another block.
    append(group, "f", records(group, 16, *(upsert(id, 12, 6) for id in (1, 3)), compacted=[14, 12]))
    append(group, "g", deletes(group, 16, 2, compacted=[14, 12]))
    assert group.values() == {1: 12, 3: 13}


def test_a_rollback_block_takes_back_the_blocks_before_it_and_no_later_one(group: Group) -> None:
    append(group, "a", records(group, 11, upsert(1, 1, 6)), records(group, 12, upsert(2, 2, 6)))
    append(group, "b", log_blocks.rollback_block(f"{13:017d}", f"{11:017d}"))
    assert group.values() == {1: 0, 2: 2, 3: 0}

    append(group, "c", records(group, 11, upsert(3, 3, 6)))
    assert group.values() == {1: 0, 2: 2, 3: 3}


def test_a_block_of_change_data_capture_is_left_out(group: Group) -> None:
    append(group, "a", LogBlock(BlockType.CDC_DATA, {HeaderKey.INSTANT_TIME: f"{11:017d}"}, b"x"))
    assert group.values() == {1: 0, 2: 0, 3: 0}


def test_a_log_compaction_of_later_instants_is_damaged(group: Group) -> None:
    append(group, "a", records(group, 11, upsert(1, 1, 6), compacted=[11]))
    with pytest.raises(errors.LogFileDamaged, match="takes the place of blocks of later instants"):
        group.rows()
