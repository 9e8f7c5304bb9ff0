"""Log files that only Hudi writes: compacted blocks, rolled-back blocks, records with some of the columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from chronolake.slices import columns
from chronolake.slices.stored_slices import SliceFile
from chronolake.writing import row_checks
from chronolake_hudi import log_blocks, log_files
from chronolake_hudi.log_blocks import DeletedRecord
from chronolake_hudi.log_files import BlockType, HeaderKey, LogBlock
from chronolake_model.meta_columns import IS_DELETED
from chronolake_model.tables import SchemaField
from chronolake_spark import errors
from tests.examples import examples
from tests.spark.test_log_merge import FIELDS, GROUP, SCHEMA, Group, Row, upsert

OPERATION = "_hoodie_operation"


def append(group: Group, name: str, *blocks: LogBlock) -> None:
    """Append a log file with these blocks to the slice."""
    content = b"".join(map(log_files.encode, blocks))
    (group.folder / name).write_bytes(content)
    log = SliceFile(name, len(content), 1, has_field_ids=False)
    stored = group.slices[GROUP]
    group.slices = {GROUP: msgspec.structs.replace(stored, logs=[*stored.logs, log])}


def records(group: Group, time: int, *rows: Row, compacted: Sequence[int] = ()) -> LogBlock:
    """A block with records of an instant, or of a log compaction of instants."""
    schema = group.format.schema
    block = log_blocks.avro_block(f"{time:017d}", schema, [_record(time, row) for row in rows])
    return _with_compacted(block, compacted)


def partial(group: Group, time: int, *rows: Row, parquet: bool = False) -> LogBlock:
    """A block with records of an instant that have only the columns of its rows."""
    written = [_record(time, row) for row in rows]
    fields = json.loads(group.format.schema)
    fields["fields"] = [field for field in fields["fields"] if field["name"] in written[0]]
    instant, schema = f"{time:017d}", json.dumps(fields)
    if parquet:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(written), sink)
        block = log_blocks.parquet_block(instant, schema, sink.getvalue().to_pybytes())
    else:
        block = log_blocks.avro_block(instant, schema, written)
    return with_header(block, HeaderKey.IS_PARTIAL, "true")


def update(id: int, **values: int) -> Row:
    """A row with some of the columns."""
    return {columns.RECORD_KEY: str(id), **values}


def deletes(group: Group, time: int, *ids: int, compacted: Sequence[int] = ()) -> LogBlock:
    """A block that deletes keys, without ordering values."""
    deleted = [DeletedRecord(str(id), "") for id in ids]
    return _with_compacted(log_blocks.delete_block(f"{time:017d}", group.format.schema, deleted), compacted)


def _record(time: int, row: Row) -> dict[str, Any]:
    meta = {columns.RECORD_KEY: row[columns.RECORD_KEY], columns.COMMIT_TIME: f"{time:017d}"}
    meta |= {columns.PARTITION_PATH: "", columns.COMMIT_SEQNO: f"{time}_0_0", columns.FILE_NAME: "f"}
    return {**meta, **{name: row[name] for name in ("id", "value", "ts", "more") if name in row}}


def _with_compacted(block: LogBlock, compacted: Sequence[int]) -> LogBlock:
    times = ",".join(f"{time:017d}" for time in compacted)
    return with_header(block, HeaderKey.COMPACTED_BLOCK_TIMES, times) if compacted else block


def with_header(block: LogBlock, key: HeaderKey, text: str) -> LogBlock:
    """The block with one more entry in its header."""
    return msgspec.structs.replace(block, header={**block.header, key: text})


@pytest.fixture(params=[("ts",), ()], ids=["event-time", "commit-time"])
def group(request: pytest.FixtureRequest, tmp_path: Path) -> Group:
    """A group with a base file with the records 1, 2 and 3."""
    group = Group(tmp_path / "t", ordering_fields=request.param)
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


@pytest.mark.parametrize("has_avro_blocks", [False, True], ids=["parquet", "avro"])
def test_a_record_that_is_flagged_as_deleted_deletes_its_key(
    tmp_path: Path, has_avro_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Hudi's writers store such records; Chronolake's refuse them.
    monkeypatch.setattr(row_checks, "check_delete_flags", lambda rows: None)
    schema = pa.schema([*SCHEMA, (IS_DELETED, pa.bool_())])
    fields = [*FIELDS, SchemaField(IS_DELETED, "boolean", field_id=5)]
    group = Group(tmp_path / "t", has_avro_blocks=has_avro_blocks, schema=schema, fields=fields)
    # Hudi shows such a record of a base file too: only bulk inserts write it.
    group.write(10, *({**upsert(id, 0, 5), IS_DELETED: id == 5} for id in range(1, 6)))
    group.compact(10)
    flags = {1: (6, True), 2: (4, True), 3: (6, False), 4: (6, None)}
    group.write(11, *({**upsert(id, 1, ts), IS_DELETED: flag} for id, (ts, flag) in flags.items()))
    assert group.values() == {2: 0, 3: 1, 4: 1, 5: 0}
    assert sorted(row["value"] for row in group.rows("value")) == [0, 0, 1, 1]

    group.write(12, {**upsert(1, 2, 5), IS_DELETED: False}, {**upsert(3, 2, 7), IS_DELETED: False})
    assert group.values() == {2: 0, 3: 2, 4: 1, 5: 0}


@pytest.mark.parametrize("parquet", [False, True], ids=["avro", "parquet"])
def test_a_record_of_a_changelog_that_says_delete_deletes_its_key(group: Group, parquet: bool) -> None:
    rows = [{**upsert(1, 1, 6), OPERATION: "D"}, {**upsert(2, 1, 6), OPERATION: "U"}]
    schema = json.loads(group.format.schema)
    schema["fields"].append({"name": OPERATION, "type": ["null", "string"], "default": None})
    written = [{**_record(11, row), OPERATION: row[OPERATION]} for row in rows]
    if parquet:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(written), sink)
        block = log_blocks.parquet_block(f"{11:017d}", json.dumps(schema), sink.getvalue().to_pybytes())
    else:
        block = log_blocks.avro_block(f"{11:017d}", json.dumps(schema), written)
    append(group, "a", block)
    assert group.values() == {2: 1, 3: 0}


def test_a_log_compaction_of_later_instants_is_damaged(group: Group) -> None:
    append(group, "a", records(group, 11, upsert(1, 1, 6), compacted=[11]))
    with pytest.raises(errors.LogFileDamaged, match="takes the place of blocks of later instants"):
        group.rows()


@pytest.fixture
def wide(tmp_path: Path) -> Group:
    """A group with an ordering field and one more column, with a base file of the records 1, 2 and 3."""
    return _wide(tmp_path / "t", ["ts"])


def _wide(folder: Path, ordering_fields: Sequence[str]) -> Group:
    schema = pa.schema([*SCHEMA, ("more", pa.int64())])
    fields = [*FIELDS, SchemaField("more", "bigint", field_id=5)]
    group = Group(folder, ordering_fields=ordering_fields, schema=schema, fields=fields)
    group.write(10, *({**upsert(id, 0, 5), "more": 0} for id in (1, 2, 3)))
    group.compact(10)
    return group


def values(group: Group, *names: str) -> dict[int, tuple[int | None, ...]]:
    """The value, the ordering value and the last column of each key, or those of these columns."""
    names = names or ("value", "ts", "more")
    rows = group.rows("id", *names)
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: tuple(row[name] for name in names) for row in rows}


@pytest.mark.parametrize("parquet", [False, True], ids=["avro", "parquet"])
def test_a_partial_update_keeps_the_columns_that_it_lacks(wide: Group, parquet: bool) -> None:
    append(wide, "a", partial(wide, 11, update(1, value=7, ts=6), update(2, value=7, ts=4), parquet=parquet))
    append(wide, "b", partial(wide, 12, update(1, more=8, ts=6), update(9, more=8, ts=6), parquet=parquet))

    assert values(wide) == {1: (7, 6, 8), 2: (0, 5, 0), 3: (0, 5, 0), None: (None, 6, 8)}
    assert values(wide, "more") == {1: (8,), 2: (0,), 3: (0,), None: (8,)}
    times = {row["id"]: row[columns.COMMIT_TIME] for row in wide.rows()}
    assert times == {1: f"{12:017d}", 2: f"{10:017d}", 3: f"{10:017d}", None: f"{12:017d}"}


def test_of_partial_updates_the_larger_ordering_value_is_on_top(wide: Group) -> None:
    append(wide, "a", partial(wide, 11, update(1, value=7, ts=9)))
    append(wide, "b", partial(wide, 12, update(1, value=8, more=8, ts=8)))
    # Hudi 1.2 lays them so as well: the smaller one gives what the other one lacks.
    assert values(wide)[1] == (7, 9, 8)

    append(wide, "c", records(wide, 13, {**upsert(1, 1, 8), "more": 1}, {**upsert(2, 1, 8), "more": 1}))
    append(wide, "d", partial(wide, 14, update(2, value=9, ts=9)))
    assert (values(wide)[1], values(wide)[2]) == ((7, 9, 8), (9, 9, 1))


def test_a_delete_leaves_nothing_beneath_a_partial_update(wide: Group) -> None:
    append(wide, "a", deletes(wide, 11, 1, 2))
    append(wide, "b", partial(wide, 12, update(1, value=7, ts=3)))
    assert values(wide) == {None: (7, 3, None), 3: (0, 5, 0)}

    # A change after the delete does: one with a smaller ordering value gives what the larger one lacks.
    append(wide, "c", partial(wide, 13, update(1, value=8, more=8, ts=2)))
    assert values(wide) == {None: (7, 3, 8), 3: (0, 5, 0)}


def test_a_partial_update_without_the_ordering_field_is_refused(wide: Group) -> None:
    append(wide, "a", partial(wide, 11, update(1, value=7)))
    with pytest.raises(errors.LogFileUnsupported, match="and not the ordering field ts"):
        wide.rows()


UPDATES = st.dictionaries(
    st.integers(1, 4),
    st.fixed_dictionaries(
        {"ts": st.integers(3, 7)}, optional={"value": st.integers(0, 99), "more": st.just(1)}
    ),
    min_size=1,
)


@given(st.lists(st.tuples(UPDATES, st.sampled_from(["partial", "whole", "delete"])), max_size=6), st.booleans())
@settings(max_examples=examples(60))
def test_partial_updates_are_laid_as_in_plain_python(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[dict[int, Row], str]], is_ordered: bool
) -> None:
    group = _wide(tmp_path_factory.mktemp("t") / "t", ["ts"] if is_ordered else [])
    log: dict[int, Row] = {}
    for number, (updates, kind) in enumerate(steps, 11):
        if kind == "delete":
            append(group, str(number), deletes(group, number, *updates))
        else:
            rows = [_of_kind(id, row, kind) for id, row in updates.items()]
            names = sorted({frozenset(row) for row in rows}, key=sorted)
            by_columns = [[row for row in rows if frozenset(row) == own] for own in names]
            block = partial if kind == "partial" else records
            append(group, str(number), *(block(group, number, *rows) for rows in by_columns))
        for id, row in updates.items():
            new = {"deleted": True} if kind == "delete" else _of_kind(id, row, kind)
            log[id] = _laid(log.get(id), new, is_ordered)
    base = {id: {"id": id, "value": 0, "ts": 5, "more": 0} for id in (1, 2, 3)}
    stored = {id: _over(log.get(id), base.get(id), is_ordered) for id in {*log, *base}}

    read = {int(row[columns.RECORD_KEY]): row for row in group.rows()}
    expected = {id: row for id, row in stored.items() if row is not None}
    assert {id: [row[name] for name in ("value", "ts", "more")] for id, row in read.items()} == {
        id: [row.get(name) for name in ("value", "ts", "more")] for id, row in expected.items()
    }


def _of_kind(id: int, row: Row, kind: str) -> Row:
    whole = {"id": id, "value": None, "more": None} if kind == "whole" else {}
    return {columns.RECORD_KEY: str(id), **whole, **row}


def _laid(old: Row | None, new: Row, is_ordered: bool) -> Row:
    """The change of a key after one more. A deleted record has no columns, and leaves nothing beneath."""
    if old is None or "deleted" in new:
        return new
    if "deleted" in old:
        return {**new, "after_delete": True}
    on_top = not is_ordered or new["ts"] >= old["ts"]
    return {**old, **new} if on_top else {**new, **old}


def _over(change: Row | None, base: Row | None, is_ordered: bool) -> Row | None:
    if change is None or "deleted" in change:
        return base if change is None else None
    if base is None or "after_delete" in change:
        return change
    if is_ordered and base["ts"] > change["ts"]:
        return base
    return {**base, **change}
