"""File groups of merge-on-read tables, written and read without Spark, against plain Python."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

from chronolake.slices import (
    base_files,
    columns,
    key_search,
    layouts,
    log_contents,
    merge,
    slice_reader,
    text_hashes,
)
from chronolake.slices.key_search import KeySet
from chronolake.slices.log_contents import LogFormat
from chronolake.slices.merge import Existing
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import SliceFile, StoredSlice
from chronolake.writing import bucket_writer
from chronolake.writing.bucket_writer import TaskAttempt, WriteJob, WriteTaskResult
from chronolake.writing.stored_groups import GroupNumber
from chronolake_hudi import log_files
from chronolake_hudi.log_blocks import DeletedRecord
from chronolake_model.file_names import log_file_name
from chronolake_model.tables import SchemaField
from chronolake_spark import errors
from tests.examples import examples
from tests.spark.definitions import slices_after

KEYS = st.text("a\0é", max_size=18)

GROUP = GroupNumber("", 0)
SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int16()), ("ts", pa.int64())])
FIELDS = [
    SchemaField("id", "bigint", field_id=1),
    SchemaField("value", "smallint", field_id=3),
    SchemaField("ts", "bigint", field_id=4),
]
Row = dict[str, Any]


class Markers:
    """Markers that are not recorded."""

    def create(self, markers: Any) -> None:
        """As ``chronolake.Markers``."""

    def check(self, marker: Any) -> bool:
        """As ``chronolake.Markers``."""
        return True


@dataclass
class Group:
    """A file group in a folder: each write is an instant, whose requested time is a number of 17 digits."""

    folder: Path
    ordering_fields: Sequence[str] = ("ts",)
    has_avro_blocks: bool = False
    schema: pa.Schema = SCHEMA
    fields: list[SchemaField] = field(default_factory=lambda: FIELDS)
    slices: dict[GroupNumber, StoredSlice] = field(default_factory=dict)
    earlier: dict[int, list[SchemaField]] = field(default_factory=dict)
    version: int = 1

    def __post_init__(self) -> None:
        self.format = LogFormat.of("shop.orders", self.fields, has_avro_blocks=self.has_avro_blocks)

    @property
    def versions(self) -> dict[int, list[SchemaField]]:
        """The columns of each version of the schema."""
        return {**self.earlier, self.version: self.fields}

    def job(self, time: int, existing: Existing = Existing.MERGE) -> WriteJob:
        """The job of an instant that sees the present slices."""
        return WriteJob(
            base_path=str(self.folder),
            requested_time=f"{time:017d}",
            schema=self.schema,
            fields=self.fields,
            required=(),
            ordering_fields=self.ordering_fields,
            existing=existing,
            stored=self.slices,
            versions=self.versions,
            log_format=self.format,
        )

    def run(self, job: WriteJob, *rows: Row) -> WriteTaskResult:
        """Write rows as an instant; ``complete`` publishes it."""
        control = [(columns.RECORD_KEY, pa.string()), (columns.PARTITION_PATH, pa.string())]
        control += [(columns.BUCKET, pa.int32()), (columns.DELETE, pa.bool_())]
        batch = pa.RecordBatch.from_pylist(list(rows), schema=pa.schema([*control, *self.schema]))
        self.folder.mkdir(exist_ok=True)
        return bucket_writer.write([batch], job, TaskAttempt(0, "0-0-0"), Markers())  # type: ignore[arg-type]

    def complete(self, written: WriteTaskResult) -> None:
        """Publish what an instant wrote."""
        self.slices = slices_after(self.slices, written.stats, self.version)

    def write(self, time: int, *rows: Row, existing: Existing = Existing.MERGE) -> WriteTaskResult:
        """Write rows as an instant and publish it."""
        written = self.run(self.job(time, existing), *rows)
        self.complete(written)
        return written

    def reader(self, *names: str) -> SliceReader:
        """A reader of these columns, of all by default."""
        layout = layouts.file_schema(self.schema, self.fields)
        ordering = slice_reader.ordering_of(layout, self.ordering_fields)
        wanted = pa.schema([layout.field(name) for name in names]) if names else layout
        return SliceReader(base_files.TableFolder.of(str(self.folder)), wanted, self.versions, ordering)

    def rows(self, *names: str) -> list[Row]:
        """The records of the group, by key."""
        if GROUP not in self.slices:
            return []
        rows: list[Row] = pa.concat_tables(self.reader(*names).rows(self.slices[GROUP])).to_pylist()
        return rows

    def values(self) -> dict[int, int | None]:
        """The value of each key."""
        rows = self.rows()
        values = {row["id"]: row["value"] for row in rows}
        assert len(values) == len(rows)
        return values

    def compact(self, time: int) -> None:
        """Rewrite the slice into a base file, as a compaction does: records keep their commit time."""
        name = f"compacted-{time}.parquet"
        layout = layouts.file_schema(self.schema, self.fields)
        size = base_files.write(base_files.TableFolder.of(str(self.folder)), name, layout, self.merged())
        base = SliceFile(name, size, 1, has_field_ids=True)
        self.slices = {GROUP: msgspec.structs.replace(self.slices[GROUP], base=base, logs=[])}

    def merged(self) -> list[pa.Table]:
        """The records as tables."""
        return list(self.reader().rows(self.slices[GROUP]))


def upsert(id: int, value: int | None, ts: int | None = 0) -> Row:
    return {**delete(id, ts), columns.DELETE: False, "id": id, "value": value}


def delete(id: int, ts: Any = None) -> Row:
    return {
        columns.RECORD_KEY: str(id),
        columns.PARTITION_PATH: "",
        columns.BUCKET: 0,
        columns.DELETE: True,
        "ts": ts,
    }


@pytest.fixture(params=[False, True], ids=["parquet", "avro"])
def group(request: pytest.FixtureRequest, tmp_path: Path) -> Group:
    """A group with the records 1, 2 and 3 of the ordering value 5."""
    group = Group(tmp_path / "t", has_avro_blocks=request.param)
    group.write(10, *(upsert(id, 0, 5) for id in (1, 2, 3)))
    return group


def test_the_larger_ordering_value_wins_and_at_equal_values_the_later_commit(group: Group):
    [stat] = group.write(11, upsert(1, 1, 4), upsert(2, 1, 5), upsert(3, 1, 6), upsert(4, 1, 0)).stats
    assert stat.file_name == log_file_name(stat.file_id, "0-0-0", f"{11:017d}")
    assert (stat.records, stat.inserts, stat.updates, stat.deletes) == (4, 0, 4, 0)
    group.write(12, upsert(2, 2, 5), upsert(3, 2, 5), upsert(4, 2, None))

    assert group.values() == {1: 0, 2: 2, 3: 1, 4: 1}


def test_of_equal_log_records_the_later_requested_wins_and_any_of_them_against_the_base_file(group: Group):
    early = group.run(group.job(11), *(upsert(id, 11, 6) for id in (1, 2, 3)))
    late = group.run(group.job(12), upsert(1, 12, 6), upsert(2, 12, 7), upsert(3, 12, 5))
    group.complete(late)
    compacted = replace(group, slices=dict(group.slices))
    compacted.compact(13)
    group.complete(early)
    compacted.complete(early)

    assert group.values() == {1: 12, 2: 12, 3: 11}
    assert compacted.values() == {1: 11, 2: 12, 3: 11}


def test_deletes_with_an_ordering_value_are_compared_like_records(group: Group):
    written = group.write(11, delete(1, 4), delete(2, 5), delete(3, 6), delete(9, 1))
    assert (written.stats[0].deletes, written.unchanged) == (2, 2)
    assert group.values() == {1: 0}

    group.write(12, upsert(2, 2, 5), upsert(3, 2, 5), upsert(9, 2, 0))
    assert group.values() == {1: 0, 2: 2}


def test_a_delete_without_ordering_value_deletes_what_is_stored_and_a_later_insert_brings_it_back(group: Group):
    written = group.write(11, delete(1), delete(8))
    assert (written.stats[0].records, written.stats[0].deletes, written.unchanged) == (1, 1, 1)
    assert group.write(12, delete(1), delete(2, 4)).stats == ()

    group.write(13, upsert(1, 3, 5))
    assert group.values() == {1: 3, 2: 0, 3: 0}
    group.write(14, delete(1))
    group.write(15, upsert(1, 5, 6))
    assert group.values()[1] == 5


def test_an_insert_looks_for_keys_in_the_log_too(group: Group):
    group.write(11, upsert(4, 1), delete(1), delete(2))
    refused = group.write(12, upsert(4, 2), upsert(5, 2), existing=Existing.FAIL)
    assert (refused.stats, refused.duplicates, refused.duplicate_key) == ((), 1, "4")
    written = group.write(
        13, upsert(4, 3), upsert(1, 3, 4), upsert(2, 3, 5), upsert(5, 3), existing=Existing.DROP
    )

    assert (written.stats[0].inserts, written.unchanged) == (2, 2)
    assert group.values() == {2: 3, 3: 0, 4: 1, 5: 3}


def test_a_long_log_file_has_several_blocks(group: Group, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_contents, "BLOCK_ROWS", 2)
    [stat] = group.write(11, *(upsert(id, 1, 5) for id in range(5)), delete(8, 1)).stats
    path = group.folder / stat.file_name
    with path.open("rb") as stream:
        blocks = list(log_files.read(stream, stat.size_bytes, str(path)))

    assert [block.type is log_files.BlockType.DELETE for block in blocks] == [False, False, False, True]
    assert group.values() == dict.fromkeys(range(5), 1)


def test_only_the_wanted_columns_come_back(group: Group):
    group.write(11, upsert(1, 7, 5))

    assert sorted(row["value"] for row in group.rows("value")) == [0, 0, 7]
    assert group.rows("value")[0].keys() == {"value"}


def test_records_have_hudis_columns(group: Group):
    [stat] = group.write(11, upsert(1, 7, 5), upsert(9, 7, 5)).stats

    row = next(row for row in group.rows() if row["id"] == 9)
    assert [row[name] for name in columns.META] == [f"{11:017d}", f"{11:017d}_0_1", "9", "", stat.file_name]


def test_a_delete_of_another_writer_without_ordering_value_deletes_what_was_before(tmp_path: Path):
    group = Group(tmp_path / "t")
    group.write(10, *(upsert(id, 0, 5) for id in (1, 2, 3)))
    group.write(12, upsert(1, 1, 9))
    group.write(14, upsert(1, 2, 1), upsert(2, 2, 1), upsert(4, 2, 1))
    foreign = [DeletedRecord(str(id)) for id in (1, 2, 3)]
    size = log_contents.write(
        base_files.TableFolder.of(str(group.folder)),
        "log",
        f"{13:017d}",
        group.format,
        SCHEMA.empty_table(),
        foreign,
    )
    [before] = group.slices.values()
    log = SliceFile("log", size, 1, has_field_ids=True)
    group.slices = {GROUP: msgspec.structs.replace(before, logs=[*before.logs, log])}

    assert group.values() == {1: 2, 2: 2, 4: 2}


@pytest.mark.parametrize(
    ("type_text", "arrow_type", "values"),
    [
        ("date", pa.date32(), [date(1969, 12, 31), date(2026, 1, 1), date(2026, 1, 2)]),
        ("timestamp", pa.timestamp("us", "UTC"), [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]),
        ("double", pa.float64(), [-1.5, 0.5, 2.0]),
        ("string", pa.string(), ["a", "b", "c"]),
        ("boolean", pa.bool_(), [False, True, True]),
    ],
)
def test_ordering_values_of_each_type_decide_about_deletes(
    tmp_path: Path, type_text: str, arrow_type: pa.DataType, values: list[Any]
):
    schema = SCHEMA.set(2, pa.field("ts", arrow_type))
    group = Group(tmp_path / "t", schema=schema, fields=[*FIELDS[:2], SchemaField("ts", type_text, field_id=4)])
    low, middle, high = values
    group.write(10, *(upsert(id, 0, middle) for id in (1, 2, 3, 4)))
    group.write(11, delete(1, low), delete(2, middle), delete(3, high), delete(4))
    group.write(12, upsert(2, 1, low), upsert(4, 1, middle))

    assert group.values() == {1: 0, 4: 1}


@pytest.mark.parametrize("value", [float("nan"), -0.0])
def test_an_ordering_value_that_readers_order_differently_is_refused(tmp_path: Path, value: float):
    schema = SCHEMA.set(2, pa.field("ts", pa.float64()))
    group = Group(tmp_path / "t", schema=schema, fields=[*FIELDS[:2], SchemaField("ts", "double", field_id=4)])

    with pytest.raises(errors.InvalidOrderingValue, match=r"'ts' is (NaN|-0\.0) in 1 rows"):
        group.write(10, upsert(1, 0, value))  # type: ignore[arg-type]


def test_a_delete_with_an_ordering_value_that_no_log_holds_is_refused(tmp_path: Path):
    schema = SCHEMA.set(2, pa.field("ts", pa.decimal128(5, 2)))
    fields = [*FIELDS[:2], SchemaField("ts", "decimal(5,2)", field_id=4)]
    group = Group(tmp_path / "t", schema=schema, fields=fields)
    group.write(10, upsert(1, 0, 5))

    with pytest.raises(errors.LogFileUnsupported, match="order by another column"):
        group.write(11, delete(1, 6))
    assert len(list(group.folder.iterdir())) == 1


def test_a_log_file_that_was_cut_off_or_lost_is_an_error(group: Group):
    [stat] = group.write(11, upsert(1, 1, 5)).stats
    path = group.folder / stat.file_name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(errors.LogFileDamaged, match="bytes too early"):
        group.rows()
    path.unlink()
    with pytest.raises(errors.LogFileDamaged, match="not in storage"):
        group.rows()


def test_files_of_an_earlier_schema_are_merged_by_field_ids(group: Group):
    """Before: ``value`` was a smallint called ``price``, and there was a column that is dropped."""
    now, _ = group.schema, group.slices
    before_fields = [
        FIELDS[0],
        SchemaField("price", "smallint", field_id=3),
        FIELDS[2],
        SchemaField("value", "string", field_id=2),
    ]
    before = pa.schema([now.field("id"), ("price", pa.int16()), now.field("ts"), ("value", pa.string())])
    old = replace(group, folder=group.folder.with_name("old"), schema=before, fields=before_fields, slices={})
    for time, price in ((10, 1), (11, 2)):
        rows = [{**upsert(id, None, 5), "price": price, "value": "-"} for id in (1, 2, 3)[price - 1 :]]
        old.write(time, *rows)
    wider = pa.schema([now.field("id"), ("value", pa.int64()), now.field("ts"), ("note", pa.string())])
    fields = [
        FIELDS[0],
        SchemaField("value", "bigint", field_id=3),
        FIELDS[2],
        SchemaField("note", "string", field_id=9),
    ]
    new = replace(old, schema=wider, fields=fields, earlier={1: before_fields}, version=2)
    new.write(12, {**upsert(3, 2**40, 5), "note": "n"}, delete(1))

    merged = [(row["id"], row["value"], row["note"]) for row in new.rows()]
    assert sorted(merged) == [(2, 2, None), (3, 2**40, "n")]


Ordering = tuple[int | None, ...]


@dataclass(frozen=True)
class Version:
    """A version of a key: a record, or a delete of it."""

    ordering: Ordering
    time: int
    value: int | None
    is_delete: bool = False
    is_barrier: bool = False


Versions = dict[int, list[Version]]


def winner(versions: list[Version]) -> Version | None:
    """The version that counts."""
    barrier = max((version.time for version in versions if version.is_barrier), default=-1)
    alive = [version for version in versions if version.time > barrier and not version.is_barrier]
    return max(alive, key=lambda version: (*rank(version.ordering), version.time), default=None)


def rank(ordering: Ordering) -> tuple[tuple[bool, int], ...]:
    """Null is the smallest bigint. In ``part``, an int that is one of several fields, it is 0."""
    return tuple((value is not None or number == 1, value or 0) for number, value in enumerate(ordering))


def written_by(seen: Versions, time: int, rows: list[Row], *, is_new: bool, fields: Sequence[str]) -> Versions:
    """The additions of an instant to each key, if it sees these versions."""
    added: Versions = {}
    for row in rows:
        id, ordering = int(row[columns.RECORD_KEY]), tuple(row[name] for name in fields)
        known = winner(seen.get(id, []))
        if not row[columns.DELETE]:
            added[id] = [Version(ordering, time, row["value"])]
        elif is_new:
            continue
        elif not fields:
            added[id] = [Version((), time, None, is_delete=True)]
        elif any(value is not None for value in ordering):
            if known is None or rank(known.ordering) <= rank(ordering):
                added[id] = [Version(ordering, time, None, is_delete=True)]
        elif known is not None and not known.is_delete:
            is_barrier = not any(has_value for has_value, _ in rank(known.ordering))
            added[id] = [Version(known.ordering, time, None, is_delete=True, is_barrier=is_barrier)]
    return added


def live(versions: Versions) -> Versions:
    """The records after a compaction: it forgets deletes, and a log record wins ties against the base file."""
    winners = {id: winner(of_key) for id, of_key in versions.items()}
    return {id: [replace(won, time=0)] for id, won in winners.items() if won is not None and not won.is_delete}


WIDE = pa.schema([*SCHEMA, ("part", pa.int32())])
WIDE_FIELDS = [*FIELDS, SchemaField("part", "int", field_id=5)]
ROW = st.builds(
    lambda id, value, ts, part, is_delete: {
        **(delete(id, ts) if is_delete else upsert(id, value, ts)),
        "part": part,
    },
    st.integers(0, 4),
    st.integers(0, 99),
    st.none() | st.integers(1, 4),
    st.none() | st.integers(-1, 2),
    st.booleans(),
)
ROWS = st.lists(ROW, min_size=1, max_size=4, unique_by=lambda row: row[columns.RECORD_KEY])
STEPS = st.lists(st.tuples(ROWS, st.integers(0, 2)) | st.none(), min_size=2, max_size=8)
"""Rows of an instant and the number of steps until it completes; None is a compaction."""


@given(steps=STEPS, fields=st.sampled_from([(), ("ts",), ("ts", "part")]), has_avro_blocks=st.booleans())
@settings(max_examples=examples(150), deadline=None)
def test_random_histories_leave_what_plain_python_says(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[list[Row], int] | None],
    fields: Sequence[str],
    has_avro_blocks: bool,
):
    folder = tmp_path_factory.mktemp("h") / "t"
    group = Group(folder, fields, has_avro_blocks, schema=WIDE, fields=WIDE_FIELDS)
    versions: Versions = {}
    pending: list[tuple[int, WriteTaskResult, Versions]] = []
    for number, step in enumerate([*steps, *[([], 0)] * 3], 1):
        if step is None:
            if group.slices:
                group.compact(number)
                versions = live(versions)
        elif step[0]:
            rows, delay = step
            job = group.job(number)
            written = group.run(job, *rows)
            added = written_by(versions, number, rows, is_new=not group.slices, fields=fields)
            counted = [stat.inserts + stat.updates + stat.deletes for stat in written.stats]
            assert written.rows == len(rows) == sum(counted) + written.unchanged
            # Of two instants that open a file group, one loses.
            pending.append((number + (delay if group.slices else 0), written, added))
        for _, written, added in [due for due in pending if due[0] <= number]:
            group.complete(written)
            for id, of_key in added.items():
                versions[id] = [*versions.get(id, []), *of_key]
        pending = [due for due in pending if due[0] > number]

        assert group.values() == {id: won.value for id, (won,) in live(versions).items()}


@given(keys=st.lists(KEYS, max_size=8), skipped=st.integers(0, 3))
def test_it_tells_whether_keys_differ_wherever_they_lie_in_an_array(keys: list[str], skipped: int) -> None:
    array = pa.array(keys, pa.large_string()).slice(skipped)

    assert merge.are_distinct(array) == (len(set(keys[skipped:])) == len(keys[skipped:]))


# The longest keys of the two differ in how many words of eight bytes they take.
@example(wanted={"a"}, stored=["a", "a" * 9])
@given(wanted=st.sets(KEYS, max_size=8), stored=st.lists(KEYS | st.just("k" * 65), max_size=8))
def test_a_set_of_many_keys_has_exactly_its_keys(wanted: set[str], stored: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_search, "_HASHED_MIN", 1)
        keys = pickle.loads(pickle.dumps(KeySet(pa.array(list(wanted), pa.string()))))

        assert keys.has(pa.chunked_array([stored], pa.string())).to_pylist() == [
            key in wanted for key in stored
        ]


def test_of_long_keys_it_does_not_know() -> None:
    longest = "k" * text_hashes.HASHED_LENGTH_MAX

    assert merge.are_distinct(pa.array([longest, "k"], pa.large_string()))
    assert not merge.are_distinct(pa.array([f"{longest}k", "k"], pa.large_string()))


def test_one_repeated_key_among_many_is_seen() -> None:
    keys = pa.array([f"key-{number}" for number in range(5_000)], pa.large_string())

    assert merge.are_distinct(keys)
    assert not merge.are_distinct(pa.concat_arrays([keys, keys.slice(4_999)]))
