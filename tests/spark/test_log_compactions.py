"""Log compactions of file groups, without a server: readers get the same rows, also with later log files."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from chronolake.slices import base_files, log_contents
from chronolake.slices.stored_slices import SliceFile
from chronolake_hudi import log_blocks
from chronolake_hudi.log_blocks import DeletedRecord, OrderingValue, Wrapper
from chronolake_model.file_names import log_file_name
from chronolake_model.merge_modes import ORDERING_FIELDS_PROPERTY
from chronolake_spark.services import log_compaction
from tests.examples import examples
from tests.spark.definitions import definition
from tests.spark.test_log_kinds import _wide, append, deletes, partial, records, update
from tests.spark.test_log_merge import GROUP, Group, Row, upsert

KEYS = (1, 2, 3, 4)
Change = tuple[str, int, int]


def log_compact(group: Group, time: int, count: int) -> bool:
    """Put one log file in the place of the first ``count`` ones, which stay; False if none can."""
    stored = group.slices[GROUP]
    table = msgspec.structs.replace(
        definition({}),
        schema=group.fields,
        ordering_field=next(iter(group.ordering_fields), None),
        properties={
            "hudi.log-blocks": "avro" if group.has_avro_blocks else "parquet",
            **(
                {ORDERING_FIELDS_PROPERTY: ",".join(group.ordering_fields)} if group.ordering_fields[1:] else {}
            ),
        },
    )
    chosen = msgspec.structs.replace(stored, logs=stored.logs[:count])
    contents = log_compaction.contents_of(group.reader(), chosen, table)
    if contents is None:
        return False
    name, folder = log_file_name("g", "0-0-0", f"{time:017d}"), base_files.TableFolder.of(str(group.folder))
    size = log_contents.write_compacted(folder, name, f"{time:017d}", table, contents)
    file = SliceFile(name, size, group.version, has_field_ids=not group.has_avro_blocks)
    group.slices = {GROUP: msgspec.structs.replace(stored, logs=[*stored.logs, file])}
    return True


def apply(group: Group, time: int, changes: Sequence[Change]) -> None:
    """One instant with these changes, each of another key; ``more`` has larger values than ``ts``."""
    of_kind: dict[str, list[dict[str, int]]] = {kind: [] for kind in ("upsert", "part", "delete", "bare")}
    for kind, key, number in changes:
        of_kind[kind].append({"id": key, "value": number, "ts": number % 3, "more": number % 10})
    upserts = [{**upsert(row["id"], row["value"], row["ts"]), "more": row["more"]} for row in of_kind["upsert"]]
    present = {"value", "ts", *group.ordering_fields}
    updates = [
        update(row["id"], **{name: row[name] for name in ("value", "ts", "more") if name in present})
        for row in of_kind["part"]
    ]
    deleted = [
        DeletedRecord(
            str(row["id"]), "", tuple(OrderingValue(Wrapper.LONG, row[name]) for name in group.ordering_fields)
        )
        for row in of_kind["delete"]
    ]
    deleted += [DeletedRecord(str(row["id"])) for row in of_kind["bare"]]
    instant, schema = f"{time:017d}", group.format.schema
    append(
        group,
        log_file_name("g", "0-0-0", instant),
        *([records(group, time, *upserts)] if upserts else []),
        *([partial(group, time, *updates)] if updates else []),
        *([log_blocks.delete_block(instant, schema, deleted)] if deleted else []),
    )


def changes_of(*kinds: str) -> st.SearchStrategy[list[Change]]:
    change = st.tuples(st.sampled_from(kinds), st.sampled_from(KEYS), st.integers(0, 99))
    return st.lists(change, min_size=1, max_size=4, unique_by=lambda change: change[1])


@pytest.mark.parametrize("ordering_fields", [("ts",), (), ("ts", "more")])
@pytest.mark.parametrize("has_avro_blocks", [False, True])
@pytest.mark.parametrize(
    "kinds", [("upsert", "delete"), ("upsert", "delete", "bare"), ("upsert", "part", "delete")]
)
def test_a_log_compaction_changes_no_row_of_any_history(
    ordering_fields: Sequence[str], has_avro_blocks: bool, kinds: tuple[str, ...]
) -> None:
    @given(
        st.lists(changes_of(*kinds), min_size=2, max_size=5),
        st.lists(changes_of(*kinds), max_size=3),
        st.integers(2, 5),
    )
    @settings(max_examples=examples(12), deadline=None)
    def check(before: list[list[Change]], after: list[list[Change]], count: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            group = _wide(Path(folder) / "t", ordering_fields)
            group.has_avro_blocks = has_avro_blocks
            for time, changes in enumerate(before, start=11):
                apply(group, time, changes)
            plain = copy.copy(group)
            was_compacted = log_compact(group, 50, min(count, len(before)))
            assert was_compacted or "bare" in kinds
            assert sorted_rows(group) == sorted_rows(plain)
            for time, changes in enumerate(after, start=60):
                apply(group, time, changes)
                apply_same(plain, group)
                assert sorted_rows(group) == sorted_rows(plain)
            if was_compacted and log_compact(group, 90, len(group.slices[GROUP].logs)):
                assert sorted_rows(group) == sorted_rows(plain)

    check()


def apply_same(plain: Group, group: Group) -> None:
    """Append the last log file of a group to another."""
    stored = plain.slices[GROUP]
    last = group.slices[GROUP].logs[-1]
    plain.slices = {GROUP: msgspec.structs.replace(stored, logs=[*stored.logs, last])}


def sorted_rows(group: Group) -> list[Row]:
    # Not by the id: a record of a partial update alone has none.
    return sorted(group.rows(), key=lambda row: str(row["_hoodie_record_key"]))


def test_files_that_a_log_compaction_has_replaced_are_not_opened(tmp_path: Path) -> None:
    group = Group(tmp_path / "t")
    group.write(10, upsert(1, 0, 5), upsert(2, 0, 5))
    for time in (11, 12, 13):
        group.write(time, upsert(1, time, 6))
    assert log_compact(group, 14, 3)
    assert log_compact(group, 15, 4)
    expected = group.values()
    for log in group.slices[GROUP].logs[:-1]:
        (group.folder / log.path).unlink()
    assert group.values() == expected == {1: 13, 2: 0}


def test_a_group_with_a_record_after_a_delete_without_ordering_value_is_left(tmp_path: Path) -> None:
    group = Group(tmp_path / "t")
    group.write(10, upsert(1, 0, 5))
    append(group, "a", deletes(group, 11, 1))
    append(group, "b", records(group, 12, upsert(1, 12, 1)))
    assert not log_compact(group, 13, 2)
    assert group.values() == {1: 12}
