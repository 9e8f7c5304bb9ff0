"""Tables of Hudi whose keys, partition paths, versions or schemas are not those that Chronolake writes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hudi
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronolake
from chronolake.hudi import adopting, keeping, releasing, requirements, samples, spellings, stored
from chronolake.hudi.adopting import Adopted
from chronolake.hudi.definitions import CannotAdopt, Options
from chronolake.hudi.footers import Footers
from chronolake.storage import open_filesystem
from chronolake_hudi import internal_schemas, java_properties, properties
from chronolake_hudi.internal_schemas import InternalSchema
from chronolake_model.checks import FindingKind
from chronolake_model.filters import Compare, ComparisonOperator
from chronolake_model.merge_modes import ORDERING_FIELDS_PROPERTY
from chronolake_model.partition_paths import KEPT_KEYS_PROPERTY, KEPT_PROPERTY
from chronolake_storage.opening import open_files
from tests.hudi import stored_tables
from tests.hudi.stored_tables import rows_of_hudi, unpacked

KEPT_PATHS = {KEPT_PROPERTY: "true"}
BY_GENERATOR = {KEPT_PROPERTY: "by-generator"}
KEPT_KEYS = {KEPT_KEYS_PROPERTY: "true"}
OWN_PROPERTIES = {KEPT_PROPERTY, KEPT_KEYS_PROPERTY, ORDERING_FIELDS_PROPERTY}
WRONG = {
    FindingKind.WRONG_PARTITION,
    FindingKind.WRONG_PARTITION_PATH,
    FindingKind.WRONG_RECORD_KEY,
    FindingKind.NO_RECORD_KEY,
    FindingKind.WRONG_TYPE,
}


def adopt(client: chronolake.Client, namespace: str, path: Path) -> Adopted:
    """Adopt the table in a folder under the folder's name, after a dry run."""
    options = Options(name=f"{namespace}.{path.name}", base_path=str(path))
    adopting.adopt(client, options, dry_run=True)
    return adopting.adopt(client, options)


def stated(path: Path) -> dict[str, str]:
    """The properties in the folder of a table."""
    return java_properties.decode((path / properties.PATH).read_bytes(), properties.PATH)


def state(path: Path, **changes: str) -> None:
    """Change properties in hoodie.properties."""
    changed = stated(path) | {name.replace("__", "."): text for name, text in changes.items()}
    (path / properties.PATH).write_bytes(java_properties.encode(changed, "test"))


def rows_by_snapshot(table: chronolake.Table, path: Path) -> list[list[Any]]:
    """The rows in the base files of Chronolake's snapshot of a copy-on-write table, as below."""
    slices = table.snapshot().slices
    assert not any(slice_.log_files for slice_ in slices)
    files = [pq.ParquetFile(path / slice_.base_file.path).read() for slice_ in slices if slice_.base_file]
    return values(pa.concat_tables(files, promote_options="permissive"))


def values(rows: pa.Table) -> list[list[Any]]:
    """The values of each row by the names of its columns, as Hudi's JSON has them."""
    own = sorted(name for name in rows.column_names if not name.startswith("_hoodie_"))
    listed = json.loads(json.dumps([[_listed(row[name]) for name in own] for row in rows.to_pylist()]))
    return sorted(listed, key=repr)


def _listed(value: Any) -> Any:
    return list(value.values()) if isinstance(value, dict) else value


def rows_of_table(name: str) -> list[list[Any]]:
    """The rows that Hudi itself read when the table was made: the values by the names of the columns."""
    rows: list[list[Any]] = json.loads((stored_tables.TABLES / "rows.json").read_text())[name]
    return sorted(rows, key=repr)


def rows_by_hudi_rs(path: Path) -> list[list[Any]]:
    """The rows that hudi-rs reads, as above."""
    return values(pa.Table.from_batches(hudi.HudiTable(str(path)).read()))


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("timestamp9", BY_GENERATOR),
        ("slashed8", KEPT_PATHS),
        ("nested9", KEPT_KEYS),
        ("double9", KEPT_KEYS),
        ("keyless9", {}),
        ("flagged9", {}),
        ("ordered9", {ORDERING_FIELDS_PROPERTY: "ts,price"}),
    ],
)
def test_a_copy_on_write_table_with_other_keys_or_paths_is_read_and_given_back(
    client: chronolake.Client, namespace: str, tmp_path: Path, name: str, kept: dict[str, str]
) -> None:
    path = unpacked(name, tmp_path)
    before, properties_before = rows_of_table(name), stated(path)
    adopted = adopt(client, namespace, path)
    table = client.table(adopted.table)
    assert {
        key: table.definition.properties[key] for key in OWN_PROPERTIES & {*table.definition.properties}
    } == kept

    assert rows_by_snapshot(table, path) == before
    first = next(instant for instant in table.instants() if instant.completion_time)
    assert table.snapshot(first.completion_time).slices
    assert {total.kind for total in table.check().totals}.isdisjoint(WRONG)
    releasing.release(client, table.name)

    # hudi-rs reads no table with several ordering fields.
    assert name == "ordered9" or rows_by_hudi_rs(path) == before
    generator = "hoodie.table.keygenerator.type"
    assert stated(path).get(generator) == properties_before.get(generator)


def test_a_filter_prunes_no_partition_whose_path_does_not_have_the_value(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("timestamp9", tmp_path)
    table = client.table(adopt(client, namespace, path).table)
    wanted = Compare("day", ComparisonOperator.EQUAL, "2026-01-01")
    assert "2026/01/01" in {slice_.partition_path for slice_ in table.scan(wanted).slices}


def test_a_table_that_hudis_readers_know_by_its_key_generator_is_hidden_from_them(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("timestamp9", tmp_path)
    adopted = adopt(client, namespace, path)
    assert any("do not find the table until it is released" in note for note in adopted.notes)
    table = client.table(adopted.table)
    assert table.definition.properties["hudi.publish"] == "false"
    table.alter(unset=["hudi.publish"])
    assert "made by a key generator of Hudi" in str(table.publication().reason)


@pytest.mark.parametrize("version", ["3", "4", "5"])
def test_tables_of_older_versions_are_those_of_version_6(
    client: chronolake.Client, namespace: str, tmp_path: Path, version: str
) -> None:
    path = unpacked("cow6", tmp_path)
    state(path, hoodie__table__version=version)
    adopted = adopt(client, namespace, path)
    assert adopted.table_version == int(version)
    client.table(adopted.table).publish()
    assert stored_tables.rows_by_hudi_rs(path) == rows_of_hudi("cow6")
    assert stated(path)["hoodie.table.version"] == "8"


def test_the_former_partition_of_null_is_kept(tmp_path: Path) -> None:
    path = unpacked("cow6", tmp_path)
    state(path, hoodie__table__version="4")
    table = stored.read(open_files(str(path)))
    schema = requirements.schema_of(table)
    assert keeping.of(table, schema).paths is None
    file, name = table.data_files[0]
    moved = msgspec.structs.replace(file, partition_path="day=default")
    table = msgspec.structs.replace(table, data_files=[(moved, name)])
    assert "stands for null" in str(keeping.of(table, schema).paths)


@pytest.mark.parametrize(
    ("changes", "misfit"),
    [
        # As the complex generator of some releases spells a single field.
        ({"_hoodie_record_key": "id:1"}, "has the record key 'id:1', and Chronolake makes "),
        ({"day": "2026-05-05"}, "belongs to 'day=2026-05-05' for Chronolake"),
    ],
)
def test_records_that_are_stored_under_another_key_or_path_are_noticed(
    tmp_path: Path, changes: dict[str, str], misfit: str
) -> None:
    path = unpacked("cow8", tmp_path)
    for file in path.rglob("*.parquet"):
        rows = pq.ParquetFile(file).read()
        for column, text in changes.items():
            rows = rows.set_column(rows.column_names.index(column), column, pa.array([text] * len(rows)))
        pq.write_table(rows, file)
    table = stored.read(open_files(str(path)))
    filesystem, root = open_filesystem(str(path), None)
    schema = requirements.schema_of(table)
    found = samples.compared(table, schema, filesystem, root, footers_of(path, table, {})).misfits
    assert misfit in f"{found.keys} {found.paths}"


def stored_again(file: Path, keys: Sequence[str], footer: Mapping[str, str], **columns: pa.Array) -> None:
    """Store a base file again with other record keys, of which its footer has the smallest and the largest.

    The file keeps its size, which its commit states.
    """
    rows = pq.ParquetFile(file).read()
    spelled = pa.array([keys[at % len(keys)] for at in range(len(rows))])
    for name, column in {"_hoodie_record_key": spelled, **columns}.items():
        rows = rows.set_column(rows.column_names.index(name), name, column)
    rows = rows.replace_schema_metadata()
    size, padding = file.stat().st_size, 0
    for _ in range(3):
        padding += size - _written(rows, {**footer, "padding": "." * padding}, file)
    assert file.stat().st_size == size


def _written(rows: pa.Table, footer: Mapping[str, str], file: Path) -> int:
    with pq.ParquetWriter(file, rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(footer)
    return file.stat().st_size


def files_by_age(path: Path) -> list[Path]:
    """The base files of a folder, the oldest first."""
    return sorted(path.glob("*.parquet"), key=lambda file: file.stem.rpartition("_")[2])


FOOTER = {"hoodie_min_record_key": "1", "hoodie_max_record_key": "id:2"}


@pytest.mark.parametrize("footer", [FOOTER, {}])
def test_keys_of_two_spellings_are_kept_also_if_the_newest_files_have_one(
    client: chronolake.Client, namespace: str, tmp_path: Path, footer: dict[str, str]
) -> None:
    path = unpacked("evolved9", tmp_path)
    older, _newer = files_by_age(path)  # Of two file groups.
    stored_again(older, ["1", "id:2"], footer)
    options = Options(name=f"{namespace}.{path.name}", base_path=str(path))
    planned = adopting.adopt(client, options, dry_run=True)
    [note] = [note for note in planned.notes if "has the record key 'id:2'" in note]
    assert older.name in note
    assert re.search(r"and \S+\.parquet has '\d+'", note)
    table = client.table(adopting.adopt(client, options).table)
    assert table.definition.properties[KEPT_KEYS_PROPERTY] == "true"


def test_keys_of_files_that_are_not_in_the_latest_slices_do_not_count(tmp_path: Path) -> None:
    path = unpacked("cow8", tmp_path)
    # The first is of a replaced file group.
    *former, _latest = files_by_age(path / "day=2026-01-03")
    assert len(former) == 2
    for file in former:
        stored_again(file, ["id:2"], FOOTER)
    assert misfit_of_keys(path) is None


def misfit_of_keys(path: Path, **types: str) -> str | None:
    """A key in a spelling that is not Chronolake's; ``types`` are those of columns, for others than stated."""
    table = stored.read(open_files(str(path)))
    return spellings.misfit(table, types_of(table) | types, footers_of(path, table, types))


def types_of(table: stored.StoredTable) -> dict[str, str]:
    """The types of columns, as stated."""
    return {field.name: field.type for field in requirements.schema_of(table)}


def footers_of(path: Path, table: stored.StoredTable, types: Mapping[str, str], seconds: float = 60) -> Footers:
    """The footers of a table; ``types`` as for ``misfit_of_keys``."""
    filesystem, root = open_filesystem(str(path), None)
    bounded = spellings.bounded_columns(table, {**types_of(table), **types})
    return Footers(filesystem, root, bounded=bounded, seconds=seconds)


def test_keys_are_compared_within_the_time_limit_of_the_checks(tmp_path: Path) -> None:
    path = unpacked("cow8", tmp_path)
    for file in path.rglob("*.parquet"):
        stored_again(file, ["id:2"], FOOTER)
    table = stored.read(open_files(str(path)))
    footers = footers_of(path, table, {}, seconds=0)
    assert spellings.misfit(table, types_of(table), footers) is None
    # A check knows the files that were opened before, whatever the time.
    [opened] = footers.all_of([file.path for file, _ in table.data_files if file.path.endswith(".parquet")][:1])
    assert list(footers.within_time([opened[0], "other.parquet"])) == [opened]


@pytest.mark.parametrize(
    ("type_", "keys", "fits"),
    [
        ("bigint", ["-17"], True),
        ("bigint", ["017"], False),
        ("timestamp", ["141000423"], True),
        ("timestamp", ["1970-01-01 00:00:25.0"], False),
        ("timestamp_ntz", ["1970-01-01 00:00:25.07"], True),
        ("timestamp_ntz", ["1970-01-01 00:00:25.0"], False),
        ("date", ["+10000-01-01"], True),
        ("date", ["25"], False),
        ("decimal(5,2)", ["-0.50"], True),
        ("decimal(5,2)", ["0.5"], False),
        ("boolean", ["true"], True),
        ("boolean", ["1"], False),
        ("string", ["a:b\n"], True),
        ("double", ["0.5E1"], True),  # Such keys are kept by their type.
    ],
)
def test_the_spelling_of_a_key_is_known_by_the_type_of_its_field(
    tmp_path: Path, type_: str, keys: list[str], fits: bool
) -> None:
    path = unpacked("cow8", tmp_path)
    for file in path.glob("day=*/*.parquet"):
        stored_again(file, keys, {})
    assert (misfit_of_keys(path, id=type_) is None) is fits


@pytest.mark.parametrize(("value", "fits"), [("id:7", True), ("7", False)])
def test_a_text_that_begins_like_a_key_of_several_fields_is_compared_with_its_column(
    tmp_path: Path, value: str, fits: bool
) -> None:
    path = unpacked("cow8", tmp_path)
    for file in path.glob("day=*/*.parquet"):
        stored_again(file, ["id:7"], {}, id=pa.array([value] * pq.read_metadata(file).num_rows))
    assert (misfit_of_keys(path, id="string") is None) is fits


@pytest.mark.parametrize(
    ("keys", "fits"), [(["id:1,name:x,y"], True), (["id:__null__,name:x"], True), (["1,x"], False)]
)
def test_the_spelling_of_keys_of_several_fields_has_their_names(
    tmp_path: Path, keys: list[str], fits: bool
) -> None:
    path = unpacked("cow8", tmp_path)
    state(path, hoodie__table__recordkey__fields="id,name")
    for file in path.glob("day=*/*.parquet"):
        stored_again(file, keys, {})
    assert (misfit_of_keys(path) is None) is fits


def test_a_schema_on_read_that_adds_and_widens_columns_is_read_by_names(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("schema9", tmp_path)
    table = client.table(adopt(client, namespace, path).table)
    assert rows_by_snapshot(table, path) == rows_of_table("schema9")
    assert {field.name: field.type for field in table.definition.schema}["count"] == "bigint"


def test_a_schema_on_read_with_a_renamed_column_is_refused(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("renamed9", tmp_path)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with pytest.raises(CannotAdopt, match=r"has renamed the column '\w+'"):
        adopt(client, namespace, path)
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_a_rename_counts_only_while_files_from_before_it_are_there() -> None:
    schemas = [InternalSchema(0, {"id": 0, "price": 1}), InternalSchema(20, {"id": 0, "cost": 1})]
    assert internal_schemas.renamed(internal_schemas.in_force(schemas, ["10", "30"])) == "cost"
    assert internal_schemas.renamed(internal_schemas.in_force(schemas, ["20", "30"])) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"record_key_fields": []},
        {"properties": {KEPT_PROPERTY: "true"}},
        {"properties": {KEPT_KEYS_PROPERTY: "true"}},
        {"properties": {ORDERING_FIELDS_PROPERTY: "a,b"}},
    ],
)
def test_only_adopted_tables_have_no_keys_or_keep_those_of_hudi(
    client: chronolake.Client, namespace: str, tmp_path: Path, changes: dict[str, Any]
) -> None:
    definition: dict[str, Any] = {
        "schema": [chronolake.Field("id", "bigint")],
        "record_key_fields": ["id"],
    } | changes
    with pytest.raises(chronolake.errors.InvalidTable, match="adopted from Hudi"):
        client.create_table(f"{namespace}.t", base_path=str(tmp_path / "t"), **definition)
