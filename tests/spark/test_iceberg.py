"""Tables as Iceberg's readers of other projects see them: the rows of each state, by each reader."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronolake
from chronolake import Action, AddColumn, DropColumn, Field, RenameColumn, SchemaChange, WidenColumn
from chronolake.hudi import adopting
from chronolake.hudi.definitions import Options
from chronolake.slices import columns
from chronolake_model.file_names import base_file_name
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.partition_paths import partition_path
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, TableService, TableType
from chronolake_spark import services
from chronolake_spark.services import executing, jobs
from tests.fix_s3 import KEYS, S3
from tests.fix_server import ServerProcess
from tests.hudi.stored_tables import unpacked
from tests.spark import iceberg_readers
from tests.spark.arrow_writes import row, upsert, write_rows
from tests.spark.iceberg_readers import DuckDB, Reader

NewTable = Callable[..., chronolake.Table]

SCHEMA: Final = [
    Field("id", "bigint"),
    Field("value", "string"),
    Field("ts", "bigint", nullable=False),
    Field("day", "string"),
    Field("count", "int"),
    Field("price", "decimal(4,2)"),
    Field("tags", "array<struct<name:string,weights:map<string,double>>>"),
    Field("gone", "string"),
]
CHANGES: Final[list[SchemaChange]] = [
    RenameColumn("value", "title"),
    WidenColumn("count", "bigint"),
    WidenColumn("price", "decimal(9,2)"),
    DropColumn("gone"),
    AddColumn("gone", "string"),
    AddColumn("note", "string"),
]
# pyiceberg 0.12.0 reads a null list as an empty one.
TAGS: Final = [{"name": "n", "weights": [("k", 1.5)]}]


@pytest.fixture(scope="module")
def client(shared_server_url: str) -> Iterator[chronolake.Client]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("iceberg", if_not_exists=True)
        yield client


@pytest.fixture(scope="module")
def new_table(client: chronolake.Client, tmp_path_factory: pytest.TempPathFactory) -> NewTable:
    numbers = itertools.count(1)

    def make(**definition: Any) -> chronolake.Table:
        name = f"iceberg.t{next(numbers)}"
        return create(client, name, str(tmp_path_factory.mktemp("tables") / name), **definition)

    return make


def create(client: chronolake.Client, name: str, base_path: str, **definition: Any) -> chronolake.Table:
    """A table whose base path is claimed."""
    table = client.create_table(
        name,
        base_path=base_path,
        schema=SCHEMA,
        record_key_fields=["id"],
        partition_fields=["day"],
        ordering_field="ts",
        index=BucketIndex(IndexType.SIMPLE),
        **definition,
    )
    table.claim_storage()
    return table


@pytest.fixture
def readers(
    monkeypatch: pytest.MonkeyPatch, shared_server_url: str, tmp_path_factory: pytest.TempPathFactory
) -> list[Reader]:
    # Without it Polars warns that its own planner, another package, would be faster.
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    duckdb = DuckDB(shared_server_url, tmp_path_factory.mktemp("duckdb"))
    return [iceberg_readers.by_pyiceberg, iceberg_readers.by_polars, duckdb]


def write(table: chronolake.Table, *ids: int, day: str | None = "a", ts: int = 1, **values: Any) -> None:
    """One upsert into the file groups of a partition: one for even ids, and one for odd ids."""
    upsert(table, *(_row(id, day=day, ts=ts, **values) for id in ids))


def _row(id: int, *, day: str | None = "a", **values: Any) -> dict[str, Any]:
    path = partition_path(["day"], [day])
    return row(id, group=id % 2, path=path, id=id, day=day, **{"tags": TAGS, **values})


def overwrite(table: chronolake.Table, path: str) -> None:
    """Replace all file groups of a partition by a new one."""
    with table.begin(action=Action.REPLACECOMMIT) as instant:
        for of in table.snapshot().slices:
            if of.partition_path == path:
                instant.replace(FileGroupName(path, of.file_id))
        for stat in write_rows(table, instant, [_row(20, ts=1)], slices=[]).stats:
            instant.add(stat)


def test_each_reader_has_the_rows_of_each_state(
    new_table: NewTable, readers: list[Reader], shared_server_url: str
) -> None:
    table = new_table()
    write(table, 1, 2, 3, value="x", count=1, price=Decimal("1.5"), gone="g")
    write(table, 4, 5, day="b/c=d%é x", count=-5, price=Decimal("-99.99"), tags=[])
    write(table, 6, 7, day=None)
    write(table, 8, day="")
    # Snapshots of later states are made from former ones, the others from later ones.
    iceberg_readers.load(shared_server_url, table.name, 4)
    savepoint = table.savepoint().requested_time
    write(table, 1, ts=2, value="undone")
    table.restore(savepoint)
    table.finish_rollbacks()
    table.change_schema(CHANGES)
    write(table, 9, title="t", count=2**40, price=Decimal("1234567.89"), gone="new", note="z")
    write(table, 2, ts=9, delete=True)
    overwrite(table, "day=a")
    loaded = iceberg_readers.load(shared_server_url, table.name, 8)
    assert len(loaded.metadata.refs) == 2
    iceberg_readers.assert_same_states(table, loaded, readers)
    table.release_savepoint(savepoint)
    table.clean(retain_commits=2)
    loaded = iceberg_readers.load(shared_server_url, table.name, 2)
    assert len(loaded.metadata.refs) == 1
    iceberg_readers.assert_same_states(table, loaded, readers)


def test_filters_prune_files_and_lose_no_row(
    new_table: NewTable, shared_server_url: str, readers: list[Reader]
) -> None:
    table = new_table()
    write(table, 1, 2, 3, count=1, price=Decimal("1.5"))
    write(table, 4, 5, day="b", count=-5, price=Decimal("-99.99"))
    write(table, 6, day=None)
    write(table, 8, day="", count=7)
    table.change_schema(CHANGES)
    write(table, 9, day="c", count=2**40)
    loaded = iceberg_readers.load(shared_server_url, table.name, 5)
    expected = {
        "day = 'b'": ([4, 5], 2 + 2),
        "day IS NULL": ([6], 2),
        "day = ''": ([8], 2),
        "count > 100": ([9], 1),
        "price < 0": ([4, 5], 2),
        "id = 6": ([6], 1),
    }
    for condition, (ids, files) in expected.items():
        scan = loaded.scan(row_filter=condition)
        assert sorted(scan.to_arrow()["id"].to_pylist()) == ids, condition
        # The files of the partition that null and the empty text share can match any condition on it.
        assert len(list(scan.plan_files())) <= files, condition
        query = f"SELECT id FROM lake.{table.name} WHERE {condition} ORDER BY id"
        assert [id for (id,) in readers[-1].connection.execute(query).fetchall()] == ids  # type: ignore[attr-defined]


def test_a_merge_on_read_table_appears_at_its_cuts_alone(
    new_table: NewTable, readers: list[Reader], shared_server_url: str
) -> None:
    table = new_table(type=TableType.MERGE_ON_READ)
    write(table, 1, 2)
    write(table, 1, ts=2, value="in a log")
    write(table, 4, 5, day="b")
    iceberg_readers.load(shared_server_url, table.name, 1)
    plan = compaction(table)
    write(table, 2, ts=3, value="after the plan")
    services.execute(table, plan)
    loaded = iceberg_readers.load(shared_server_url, table.name, 2)
    assert int(loaded.metadata.properties["chronolake.lag-ms"]) > 0
    iceberg_readers.assert_same_states(table, loaded, readers)
    write(table, 4, ts=4, day="b", value="in another log")
    services.execute(table, compaction(table))
    # As of the plan, and as of the completion, after which no log file is left.
    loaded = iceberg_readers.load(shared_server_url, table.name, 4)
    iceberg_readers.assert_same_states(table, loaded, readers)


def compaction(table: chronolake.Table) -> str:
    """A plan to compact all file groups with log files."""
    table.services.plan(TableService.COMPACTION, force=True)
    [plan] = executing.waiting(table, list(jobs.SERVICES))
    return plan.requested_time


FOREIGN: Final = {
    "id": pa.int64(),
    "value": pa.string(),
    "ts": pa.int64(),
    "day": pa.string(),
    "count": pa.int32(),
    "price": pa.decimal128(4, 2),
    "tags": pa.list_(pa.struct({"name": pa.string(), "weights": pa.map_(pa.string(), pa.float64())})),
    "gone": pa.string(),
}
"""The columns of SCHEMA in files without field ids."""
LATER: Final = {
    **{name: type_ for name, type_ in FOREIGN.items() if name != "value"},
    "title": pa.string(),
    "count": pa.int64(),
    "note": pa.string(),
}


def write_without_ids(
    table: chronolake.Table, types: dict[str, pa.DataType], *ids: int, group: int, **values: Any
) -> None:
    """An instant with a file as another engine writes it, of columns in an order of their own."""
    file_id = f"{group:08d}-0000-0000-0000-000000000000-0"
    with table.begin() as write:
        name = base_file_name(file_id, "0-0-0", write.requested_time)
        meta = dict.fromkeys(columns.META, "")
        rows = [
            {
                **meta,
                columns.RECORD_KEY: str(id),
                columns.PARTITION_PATH: "day=a",
                "id": id,
                "ts": 1,
                "day": "a",
            }
            | {"tags": TAGS, **values}
            for id in ids
        ]
        layout = pa.schema([*reversed(types.items()), *((column, pa.string()) for column in columns.META)])
        path = Path(table.definition.base_path, "day=a", name)
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, layout), path)
        stat = WriteStat("day=a", file_id, name, path.stat().st_size, len(rows), inserts=len(rows))
        write.add(stat)


def test_files_without_field_ids_have_the_rows_of_each_state(
    new_table: NewTable, readers: list[Reader], shared_server_url: str
) -> None:
    table = new_table()
    write_without_ids(table, FOREIGN, 11, 12, group=4, value="x", count=1, price=Decimal("1.5"), gone="g")
    write(table, 1, 2, value="with ids", count=2)
    table.change_schema([*CHANGES[:2], AddColumn("note", "string")])
    write_without_ids(table, LATER, 13, 14, group=5, title="t", count=2**40, note="z")
    upsert(table, row(11, group=4, path="day=a", id=11, day="a", ts=2, title="new", tags=TAGS))
    loaded = iceberg_readers.load(shared_server_url, table.name, 4)
    iceberg_readers.assert_same_states(table, loaded, readers)


@pytest.mark.parametrize(("name", "snapshots"), [("cow8", 5), ("nested9", 2), ("evolved9", 2)])
def test_an_adopted_table_has_the_rows_of_each_state(
    client: chronolake.Client,
    tmp_path: Path,
    readers: list[Reader],
    shared_server_url: str,
    name: str,
    snapshots: int,
) -> None:
    options = Options(name=f"iceberg.{name}", base_path=str(unpacked(name, tmp_path)))
    table = client.table(adopting.adopt(client, options).table)
    loaded = iceberg_readers.load(shared_server_url, table.name, snapshots)
    iceberg_readers.assert_same_states(table, loaded, readers)


def test_a_table_in_object_storage_is_read_with_the_credentials_of_the_reader(
    new_server: Callable[..., ServerProcess],
    dsn: str,
    s3: S3,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_key"])
    url = new_server(dsn).url
    properties = {
        "storage.endpoint_override": s3.options["endpoint_override"],
        "storage.region": KEYS["region"],
    }
    with chronolake.connect(url, storage_options=s3.options) as client:
        client.create_namespace("iceberg")
        table = create(client, "iceberg.stored", s3.base_path, properties=properties)
        write(table, 1, 2)
        write(table, 2, ts=2, value="new")
        keys = {"s3.access-key-id": KEYS["access_key"], "s3.secret-access-key": KEYS["secret_key"]}
        loaded = iceberg_readers.load(url, table.name, 2, keys)
        duckdb = DuckDB(url, tmp_path / "duckdb", s3.options)
        iceberg_readers.assert_same_states(table, loaded, [iceberg_readers.by_pyiceberg, duckdb])
