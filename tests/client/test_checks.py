"""``table.check`` and ``chronolake check``: each defect, made for real, is found; a sound table has none."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronolake
import python_keys
import python_writer
from chronolake import _check_run, _keys, field_ids
from chronolake.cli import output
from chronolake_model import meta_columns as meta
from chronolake_model.checks import CheckResult, FindingKind
from chronolake_model.file_names import base_file_name, bucket_file_id
from tests.client.conftest import Cli
from tests.fix_s3 import S3

BUCKETS = 4
_SCHEMA = [
    chronolake.Field("id", "bigint"),
    chronolake.Field("region", "string"),
    chronolake.Field("price", "decimal(10,2)"),
]
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture
def orders(client: chronolake.Client, namespace: str, tmp_path: Path) -> chronolake.Table:
    """A table in two partitions with forty records, written by the example writer."""
    table = client.create_table(
        f"{namespace}.lake_{uuid.uuid4().hex[:6]}",
        base_path=str(tmp_path / "lake"),
        schema=_SCHEMA,
        record_key_fields=["id"],
        partition_fields=["region"],
        index=chronolake.BucketIndex(buckets=BUCKETS),
    )
    server = python_writer.Server(client.url)
    rows = [{"id": number, "region": "eu" if number % 2 else "us", "price": "1.50"} for number in range(40)]
    python_writer.write(server, table.name, "upsert", rows[:30])
    python_writer.write(server, table.name, "upsert", rows[20:])
    return table


def rows_of(bucket: int, requested_time: str, file_name: str) -> pa.Table:
    """The records 100 to 199 of a bucket in region=eu, as they should be."""
    ids = pa.array(range(100, 200), pa.int64())
    ids = ids.filter(pa.array(_keys.buckets([ids.cast(pa.large_string())], BUCKETS) == bucket))
    count = len(ids)
    values = {
        meta.COMMIT_TIME: pa.array([requested_time] * count),
        meta.COMMIT_SEQNO: pa.array([f"{requested_time}_0_{number}" for number in range(count)]),
        meta.RECORD_KEY: ids.cast(pa.string()),
        meta.PARTITION_PATH: pa.array(["region=eu"] * count),
        meta.FILE_NAME: pa.array([file_name] * count),
        "id": ids,
        "region": pa.array(["eu"] * count),
        "price": pa.nulls(count, pa.decimal128(10, 2)),
    }
    return pa.table(values)


def publish(
    table: chronolake.Table,
    change: Change,
    *,
    bucket: int = 1,
    records: int | None = None,
    has_field_ids: bool = False,
) -> str:
    """Publish a base file of a bucket as a writer that is wrong writes it; gives its path."""
    with table.begin() as write:
        file_id = bucket_file_id(bucket)
        name = base_file_name(file_id, "0-0-0", write.requested_time)
        rows = change(rows_of(bucket, write.requested_time, name))
        path = Path(table.definition.base_path) / "region=eu" / name
        pq.write_table(rows, path)
        count = len(rows) if records is None else records
        size = path.stat().st_size
        write.add(chronolake.WriteStat("region=eu", file_id, name, size, count, has_field_ids=has_field_ids))
    return f"region=eu/{name}"


def put(name: str, row: int, value: Any) -> Change:
    """A change of one value."""

    def change(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index(name)
        values = table[name].to_pylist()
        values[row] = value
        return table.set_column(
            index, table.schema.field(index), pa.array(values, table.schema.field(index).type)
        )

    return change


def kinds(report: CheckResult) -> dict[FindingKind, tuple[int, int]]:
    return {total.kind: (total.findings, total.records) for total in report.totals}


def test_a_sound_table_has_no_finding(orders: chronolake.Table) -> None:
    progress: list[tuple[int, int, int]] = []

    report = orders.check(on_progress=lambda *done: progress.append(done))

    assert (report.totals, report.findings, report.not_covered) == ([], [], [])
    assert (report.files, report.files_read, report.records) == (8, 8, 40)
    assert progress[-1] == (8, 8, 40)
    first = next(iter(orders.instants()))
    assert (kinds(orders.check(first.completion_time)), orders.check(first.completion_time).records) == ({}, 30)


def test_a_table_that_nothing_was_written_to_has_no_finding(table: chronolake.Table) -> None:
    report = table.check()

    assert (report.as_of, report.files, report.totals) == (None, 0, [])


DEFECTS: dict[FindingKind, Change] = {
    FindingKind.NO_RECORD_KEY: put("id", 0, None),
    FindingKind.WRONG_RECORD_KEY: put(meta.RECORD_KEY, 0, "id:100"),
    FindingKind.WRONG_PARTITION: put("region", 0, "us"),
    FindingKind.WRONG_COMMIT_TIME: put(meta.COMMIT_TIME, 0, "20200101000000000"),
    FindingKind.WRONG_COMMIT_SEQNO: put(meta.COMMIT_SEQNO, 0, "7"),
    FindingKind.WRONG_PARTITION_PATH: put(meta.PARTITION_PATH, 0, None),
    FindingKind.WRONG_FILE_NAME: put(meta.FILE_NAME, 0, "another.parquet"),
}


@pytest.mark.parametrize("kind", DEFECTS)
def test_a_wrong_value_is_a_finding(orders: chronolake.Table, kind: FindingKind) -> None:
    path = publish(orders, DEFECTS[kind])

    report = orders.check()

    assert kinds(report)[kind] == (1, 1)
    assert [finding.path for finding in report.findings if finding.kind is kind] == [path]
    # A wrong commit time makes the sequence number that begins with it wrong too.
    allowed = {kind, FindingKind.WRONG_COMMIT_SEQNO} if kind is FindingKind.WRONG_COMMIT_TIME else {kind}
    assert set(kinds(report)) == allowed


@pytest.mark.parametrize(
    ("change", "kind", "example"),
    [
        (lambda rows: rows.drop_columns([meta.COMMIT_SEQNO]), FindingKind.MISSING_COLUMN, meta.COMMIT_SEQNO),
        (lambda rows: rows.drop_columns(["id"]), FindingKind.MISSING_COLUMN, "id"),
        (
            lambda rows: rows.set_column(5, "id", rows["id"].cast(pa.int32())),
            FindingKind.WRONG_TYPE,
            "id is of type int32, not bigint",
        ),
        (
            lambda rows: rows.set_column(0, meta.COMMIT_TIME, rows[meta.COMMIT_TIME].cast(pa.int64())),
            FindingKind.WRONG_TYPE,
            f"{meta.COMMIT_TIME} is of type int64, not string",
        ),
        (
            lambda rows: rows.set_column(7, "price", rows["price"].cast(pa.decimal128(12, 3))),
            FindingKind.WRONG_TYPE,
            "price is of type decimal128(12, 3), not decimal(10,2)",
        ),
    ],
    ids=["a meta column", "a key column", "a key's type", "a meta column's type", "another scale"],
)
def test_a_column_that_is_missing_or_of_another_type_is_a_finding(
    orders: chronolake.Table, change: Change, kind: FindingKind, example: str
) -> None:
    publish(orders, change)

    assert [(finding.kind, finding.examples) for finding in orders.check().findings] == [(kind, [example])]


def with_field_ids(fields: Sequence[chronolake.SchemaField]) -> Change:
    """A change of no value: the file carries the field ids of these columns, and Hudi's."""
    return lambda rows: rows.cast(field_ids.by_names(rows.schema, fields))


@pytest.mark.parametrize("has_field_ids", [True, False])
def test_a_field_id_that_is_wrong_or_missing_is_a_finding(
    orders: chronolake.Table, has_field_ids: bool
) -> None:
    id_, region, price = orders.definition.schema
    wrong = [id_, msgspec.structs.replace(price, field_id=7)]
    publish(orders, with_field_ids(wrong), has_field_ids=has_field_ids)
    publish(orders, with_field_ids([id_, region, price]), bucket=2, has_field_ids=True)

    assert [(finding.kind, finding.examples) for finding in orders.check().findings] == [
        (
            FindingKind.WRONG_FIELD_ID,
            ["region has the field id None, not 2", "price has the field id 7, not 3"],
        )
    ]


def test_a_file_without_the_field_ids_that_it_should_have_is_a_finding(orders: chronolake.Table) -> None:
    publish(orders, lambda rows: rows, has_field_ids=True)

    assert kinds(orders.check()) == {FindingKind.WRONG_FIELD_ID: (1, 0)}


def test_a_key_in_the_wrong_bucket_and_its_duplicate_are_findings(orders: chronolake.Table) -> None:
    rows = rows_of(2, "0", "-")
    right = publish(orders, lambda rows: rows, bucket=2)
    wrong = publish(orders, lambda own: pa.concat_tables([own, _renamed(rows.slice(0, 2), own)]), bucket=1)

    report = orders.check()

    assert kinds(report) == {FindingKind.WRONG_BUCKET: (1, 2), FindingKind.DUPLICATE_KEY: (1, 2)}
    by_kind = {finding.kind: finding for finding in report.findings}
    assert by_kind[FindingKind.WRONG_BUCKET].path == wrong
    assert "belongs to bucket 2" in by_kind[FindingKind.WRONG_BUCKET].examples[0]
    assert by_kind[FindingKind.DUPLICATE_KEY].path == right
    assert wrong in by_kind[FindingKind.DUPLICATE_KEY].examples[0]


def _renamed(rows: pa.Table, own: pa.Table) -> pa.Table:
    """Rows of another bucket as if they were of this file."""
    count = len(rows)
    time = own[meta.COMMIT_TIME][0].as_py()
    numbers = [f"{time}_1_{number}" for number in range(count)]
    columns = {meta.COMMIT_TIME: [time] * count, meta.COMMIT_SEQNO: numbers}
    columns[meta.FILE_NAME] = [own[meta.FILE_NAME][0].as_py()] * count
    return pa.table({name: columns.get(name, rows[name]) for name in rows.column_names}, schema=own.schema)


def test_a_key_in_two_wrong_buckets_is_a_finding(orders: chronolake.Table) -> None:
    rows = rows_of(3, "0", "-").slice(0, 1)
    publish(orders, lambda own: pa.concat_tables([own, _renamed(rows, own)]), bucket=1)
    publish(orders, lambda own: pa.concat_tables([own, _renamed(rows, own)]), bucket=2)

    assert kinds(orders.check()) == {FindingKind.WRONG_BUCKET: (2, 2), FindingKind.DUPLICATE_KEY: (1, 1)}


def test_keys_in_wrong_buckets_above_the_limit_are_not_covered(
    orders: chronolake.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_check_run, "MISPLACED_MAX", 1)
    rows = rows_of(2, "0", "-").slice(0, 3)
    publish(orders, lambda own: pa.concat_tables([own, _renamed(rows, own)]), bucket=1)

    report = orders.check()

    assert kinds(report) == {FindingKind.WRONG_BUCKET: (1, 3)}
    (not_covered,) = report.not_covered
    assert not_covered.startswith("duplicates of 2 keys in wrong buckets: only the first")


def test_a_key_or_a_number_that_is_twice_in_a_file_is_a_finding(orders: chronolake.Table) -> None:
    publish(orders, lambda rows: pa.concat_tables([rows, rows.slice(0, 2), rows.slice(0, 1)]))

    report = orders.check()

    assert kinds(report) == {FindingKind.DUPLICATE_KEY: (1, 3), FindingKind.WRONG_COMMIT_SEQNO: (1, 3)}


def test_a_commit_time_later_than_the_file_is_a_finding(orders: chronolake.Table) -> None:
    pending = orders.begin_many(2)
    later = pending[1].requested_time
    pending[1].complete([])
    stat = pending[0]
    name = base_file_name(bucket_file_id(1), "0-0-0", stat.requested_time)
    rows = rows_of(1, stat.requested_time, name)
    rows = put(meta.COMMIT_TIME, 0, later)(put(meta.COMMIT_SEQNO, 0, f"{later}_0_0")(rows))
    path = Path(orders.definition.base_path) / "region=eu" / name
    pq.write_table(rows, path)
    stat.complete([chronolake.WriteStat("region=eu", bucket_file_id(1), name, path.stat().st_size, len(rows))])

    assert kinds(orders.check()) == {FindingKind.WRONG_COMMIT_TIME: (1, 1)}


def test_missing_truncated_corrupt_and_foreign_files_are_findings(orders: chronolake.Table) -> None:
    base = Path(orders.definition.base_path)
    missing, cut, spoiled, footer = sorted(base.rglob("*-0_*.parquet"))[:4]
    missing.unlink()
    cut.write_bytes(cut.read_bytes()[:-10])
    spoiled.write_bytes(b"x" * spoiled.stat().st_size)
    body = bytearray(footer.read_bytes())
    body[4:200] = bytes(196)
    footer.write_bytes(body)
    (base / "region=eu" / "notes.txt").write_text("left by hand")
    pending = orders.begin()
    (base / base_file_name(bucket_file_id(0), "0-0-0", pending.requested_time)).write_bytes(b"being written")

    report = orders.check()

    live = {finding.path: finding.kind for finding in report.findings}
    damaged = [missing, cut, spoiled, footer]
    snapshot = {file_slice.base_file.path for file_slice in orders.snapshot().slices if file_slice.base_file}
    expected = dict(zip(damaged, [FindingKind.MISSING_FILE, FindingKind.WRONG_SIZE], strict=False))
    expected |= dict.fromkeys(damaged[2:], FindingKind.UNREADABLE_FILE)
    paths = {str(path.relative_to(base)): kind for path, kind in expected.items()}
    assert {path: kind for path, kind in paths.items() if path in snapshot} == {
        path: kind for path, kind in live.items() if path != "region=eu/notes.txt"
    }
    assert live["region=eu/notes.txt"] is FindingKind.FOREIGN_FILE


def test_a_wrong_number_of_records_is_a_finding(orders: chronolake.Table) -> None:
    publish(orders, lambda rows: rows, records=7)

    (finding,) = orders.check().findings

    assert finding.kind is FindingKind.WRONG_RECORD_COUNT
    assert finding.examples[0].endswith(", 7 on the timeline")


def test_a_timeline_that_contradicts_its_file_names_is_a_finding(
    orders: chronolake.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The server publishes no such name: the snapshot is changed on its way.
    snapshot = orders.snapshot()
    first, *others = snapshot.slices
    assert first.base_file is not None
    moved = msgspec.structs.replace(first, file_id=bucket_file_id(1 - int(first.file_id[:8])))
    changed = msgspec.structs.replace(snapshot, slices=[moved, *others])
    monkeypatch.setattr(orders, "snapshot", lambda as_of: changed)

    (finding,) = orders.check().findings

    assert (finding.kind, finding.path) == (FindingKind.WRONG_NAME, first.base_file.path)


def test_a_sample_reads_some_files_and_reports_their_number(orders: chronolake.Table) -> None:
    report = orders.check(sample=3)

    assert (report.files, report.files_read) == (8, 3)
    assert report.not_covered == ["5 base files were not read, because only a sample was requested"]


def test_files_of_an_earlier_schema_are_checked_by_it(orders: chronolake.Table) -> None:
    orders.change_schema(
        [chronolake.RenameColumn("price", "cost"), chronolake.WidenColumn("cost", "decimal(12,2)")]
    )
    server = python_writer.Server(orders._transport.endpoint.url)
    python_writer.write(server, orders.name, "upsert", [{"id": 1, "region": "eu", "cost": "2.50"}])

    assert orders.check().totals == []


def test_without_pyarrow_the_terminal_names_the_extra(
    cli: Cli, table: chronolake.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(*_: object, **__: object) -> CheckResult:
        raise ModuleNotFoundError("No module named 'pyarrow'")

    monkeypatch.setattr(chronolake.Table, "check", check)
    ran = cli("check", table.name)

    assert ran.code == output.FAILED
    assert "pip install 'chronolake[arrow]'" in ran.err


def test_the_terminal_shows_each_finding_and_its_remedy(cli: Cli, orders: chronolake.Table) -> None:
    sound = cli("check", orders.name, "--full")
    publish(orders, put(meta.RECORD_KEY, 0, "other"))

    shown = cli("check", orders.name)
    document = cli("check", orders.name, "--json")

    assert (sound.code, shown.code, document.code) == (output.OK, output.FAILED, output.FAILED)
    assert "40 records: no finding" in sound.out
    assert "wrong-record-key: 1 file, 1 record" in shown.out
    assert "Correct the writer" in shown.out
    parsed = msgspec.json.decode(document.out, type=CheckResult)
    assert [total.kind for total in parsed.totals] == [FindingKind.WRONG_RECORD_KEY]
    assert cli("check", orders.name, "--sample", "2", "--full").code == output.USAGE
    assert cli("check", orders.name, "--sample", "0").code == output.USAGE
    assert cli("check", orders.name, "--as-of", "earliest").code == output.OK


@pytest.fixture
def in_s3(server_url: str, namespace: str, s3: S3) -> Iterator[chronolake.Table]:
    with chronolake.connect(server_url, storage_options=s3.options) as client:
        yield client.create_table(
            f"{namespace}.bucket", base_path=s3.base_path, schema=_SCHEMA, record_key_fields=["id"]
        )


def test_a_table_in_s3_is_checked(in_s3: chronolake.Table) -> None:
    with in_s3.begin() as write:
        name = base_file_name(bucket_file_id(0), "0-0-0", write.requested_time)
        write.add(chronolake.WriteStat("", bucket_file_id(0), name, 1, 1))

    assert kinds(in_s3.check()) == {FindingKind.MISSING_FILE: (1, 0)}


def test_a_million_rows_hash_as_one_by_one() -> None:
    numbers = np.random.default_rng(7).integers(0, 10**12, 2_000)
    texts = pa.array(numbers).cast(pa.large_string())
    python = [python_keys.key_hash([text]) for text in texts.to_pylist()]

    assert _keys.xxhash64([texts]).view(np.int64).tolist() == python


def test_of_files_that_a_rollback_deletes_the_check_names_the_command_that_finishes_rollbacks(
    orders: chronolake.Table, cli: Cli
) -> None:
    write = orders.begin(writer="gone")
    name = base_file_name(bucket_file_id(0), "0-0-0", write.requested_time)
    write.mark(chronolake.Marker("region=eu", name, chronolake.MarkerKind.CREATE))
    (Path(orders.definition.base_path) / "region=eu" / name).write_bytes(b"left")
    orders.rollback(write.requested_time, writer="gone", execute=False)

    waiting = cli("check", orders.name).out
    (Path(orders.definition.base_path) / "notes.txt").write_text("left by hand")
    both = cli("check", orders.name).out
    cli("finish-rollbacks", orders.name)

    assert ("foreign-file: 1 file\n" in waiting, "chronolake finish-rollbacks" in waiting) == (True, True)
    assert "chronolake orphans" not in waiting
    assert ("chronolake finish-rollbacks" in both, "chronolake orphans" in both) == (True, True)
    assert [finding.path for finding in orders.check().findings] == ["notes.txt"]
