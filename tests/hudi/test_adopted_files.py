"""Files of adopted tables: what cannot be read, what is not of the table, and the former timeline."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import chronolake
from chronolake.hudi import adopting
from chronolake.hudi.definitions import CannotAdopt, Options
from chronolake_hudi import java_properties, log_files, properties
from chronolake_hudi.log_files import BlockType, LogBlock
from tests.hudi.stored_tables import rows_by_hudi_rs, rows_of_hudi, unpacked

CREATE_SCHEMA = (
    '{"type":"record","name":"orders","fields":[{"name":"id","type":["null","long"],"default":null},'
    '{"name":"name","type":["null","string"],"default":null},{"name":"price","type":["null","double"],'
    '"default":null},{"name":"day","type":["null","string"],"default":null},{"name":"ts","type":["null",'
    '"long"],"default":null}]}'
)


def options(namespace: str, path: Path) -> Options:
    """The options of an adoption under the name of the folder."""
    return Options(name=f"{namespace}.{path.name}", base_path=str(path))


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (log_files.encode(LogBlock(BlockType.HFILE_DATA, {}, b"1234")), "HFILE_DATA cannot be read"),
        (log_files.encode(LogBlock(BlockType.DELETE, {}, b"\0\0\0\3"))[:-3], "are left"),
    ],
)
def test_a_log_file_that_cannot_be_read_is_refused_beforehand(
    client: chronolake.Client, namespace: str, tmp_path: Path, damage: bytes, reason: str, dry_run: bool
) -> None:
    path = unpacked("mor9", tmp_path)
    log = max(path.rglob("*.log.1_*"), key=lambda file: file.name)
    log.write_bytes(log.read_bytes() + damage)

    with pytest.raises(CannotAdopt, match=reason):
        adopting.adopt(client, options(namespace, path), dry_run=dry_run)

    assert not (path / ".hoodie/.chronolake-claim.json").exists()


def test_a_base_file_that_cannot_be_read_is_refused_beforehand(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("cow9", tmp_path)
    file = max(path.glob("*.parquet"), key=lambda file: file.name[-25:])
    file.write_bytes(file.read_bytes()[:-4] + b"XXXX")
    with pytest.raises(CannotAdopt, match=f"{file.name}: it cannot be read"):
        adopting.adopt(client, options(namespace, path), dry_run=True)


def test_files_in_folders_that_are_no_partitions_are_left_out_and_named(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("cow9", tmp_path)
    copied = path / "backup"
    copied.mkdir()
    [file, *_] = path.glob("*.parquet")
    shutil.copy(file, copied)
    shutil.copy(file, copied / "part-0.parquet")

    adopted = adopting.adopt(client, options(namespace, path))

    assert "2 file(s) in folders that are no partitions" in "\n".join(adopted.notes)
    assert rows_by_hudi_rs(path) == rows_of_hudi("cow9")


def test_another_file_in_a_partition_is_to_be_moved(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("cow9", tmp_path)
    (path / "part-0.parquet").write_bytes(b"")
    with pytest.raises(CannotAdopt, match=r"part-0.parquet lies in a partition .* move it out"):
        adopting.adopt(client, options(namespace, path))


def test_a_table_that_was_never_written_to_comes_in_empty(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("cow9", tmp_path)
    for file in (path / ".hoodie/timeline").glob("*.*"):
        file.unlink()
    for data in path.glob("*.parquet"):
        data.unlink()
    file = path / properties.PATH
    stated = java_properties.decode(file.read_bytes(), properties.PATH)
    file.write_bytes(java_properties.encode(stated | {"hoodie.table.create.schema": CREATE_SCHEMA}, "test"))

    table = client.table(adopting.adopt(client, options(namespace, path)).table)

    assert [column.name for column in table.definition.schema] == ["id", "name", "price", "day", "ts"]
    assert table.snapshot().slices == []
    assert table.publication().lag_versions == 0


@pytest.mark.parametrize("name", ["cow6", "compacted6"])
def test_the_former_timeline_of_version_6_is_not_foreign(
    client: chronolake.Client, namespace: str, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    table = client.table(adopting.adopt(client, options(namespace, path)).table)
    assert table.publish().foreign_files == []
    inspection = table.inspect_publication()
    assert inspection is not None
    assert inspection.foreign == []
    later = path / ".hoodie/29990101000000000.commit"
    later.write_bytes(b"{}")
    inspection = table.inspect_publication()
    assert inspection is not None
    assert inspection.foreign == [".hoodie/29990101000000000.commit"]
