"""Releasing tables to Hudi: what is left in the folder, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import chronolake
from chronolake.cli import main, output
from chronolake.hudi import adopting, history, releasing
from chronolake.hudi.definitions import CannotAdopt, Options
from chronolake.hudi.releasing import CannotRelease
from chronolake_hudi import java_properties, properties
from chronolake_model.schemas import AddColumn
from tests.hudi import stored_tables
from tests.hudi.stored_tables import rows_by_hudi_rs, rows_of_hudi, unpacked
from tests.published import PublishedTable, row

NEW = ["2026-01-01", 500, "new", 1.0, 99]


def stated(path: Path) -> dict[str, str]:
    """The properties in a folder."""
    return java_properties.decode((path / properties.PATH).read_bytes(), properties.PATH)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The folder of the table."""
    return unpacked("cow9", tmp_path)


@pytest.fixture
def table(client: chronolake.Client, namespace: str, path: Path) -> chronolake.Table:
    """An adopted table."""
    options = Options(name=f"{namespace}.orders", base_path=str(path))
    return client.table(adopting.adopt(client, options).table)


def test_a_released_table_has_the_properties_that_it_had(
    tmp_path: Path, client: chronolake.Client, namespace: str
) -> None:
    path = unpacked("cow9", tmp_path)
    before = stated(path)
    name = adopting.adopt(client, Options(name=f"{namespace}.orders", base_path=str(path))).table

    released = releasing.release(client, name)

    left_out = {"hoodie.table.checksum", "hoodie.table.metadata.partitions"}
    left_out.add("hoodie.table.metadata.partitions.inflight")
    assert stated(path) == {key: text for key, text in before.items() if key not in left_out}
    assert (released.key_generator, released.table_version) == ("NON_PARTITION", "9")
    with pytest.raises(chronolake.errors.TableNotFound):
        client.table(name)


def test_what_was_written_here_is_published_first(
    client: chronolake.Client, table: chronolake.Table, path: Path
) -> None:
    stored_tables.insert(table, path, [NEW])

    releasing.release(client, table.name)

    assert rows_by_hudi_rs(path) == [*rows_of_hudi("cow9"), NEW]


def test_a_table_that_was_created_here_gets_a_key_generator(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    client.create_table(
        f"{namespace}.made",
        base_path=str(tmp_path / "made"),
        schema=[chronolake.Field("id", "bigint"), chronolake.Field("day", "string")],
        record_key_fields=["id"],
        partition_fields=["day"],
    )

    releasing.release(client, f"{namespace}.made")

    after = stated(tmp_path / "made")
    assert after["hoodie.table.keygenerator.type"] == "SIMPLE"
    assert not {"hoodie.table.keygenerator.class", "chronolake.table-id"} & set(after)


def test_a_table_with_a_pending_instant_is_not_released(
    client: chronolake.Client, table: chronolake.Table, path: Path
) -> None:
    before = stated(path)
    with table.begin() as write:
        with pytest.raises(CannotRelease, match=write.requested_time):
            releasing.release(client, table.name)
        write.complete()
    assert stated(path) == before
    client.table(table.name)


def test_a_table_that_is_not_published_is_not_released(
    client: chronolake.Client, table: chronolake.Table, path: Path
) -> None:
    table.alter(set={"hudi.publish": "false"})
    with pytest.raises(CannotRelease, match=r"hudi\.publish says; unset it first"):
        releasing.release(client, table.name)
    client.table(table.name)


def test_a_write_during_the_release_is_not_lost(
    client: chronolake.Client, table: chronolake.Table, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = type(client).drop_table

    def write_first(self: chronolake.Client, name: str, **version: int) -> None:
        stored_tables.insert(table, path, [NEW])
        drop(self, name, **version)

    monkeypatch.setattr(type(client), "drop_table", write_first)
    with pytest.raises(chronolake.errors.IllegalTransition):
        releasing.release(client, table.name)

    assert stated(path)["hoodie.table.keygenerator.class"] == properties.GUARD_CLASS
    table.publish()
    assert rows_by_hudi_rs(path)[-1] == NEW


def test_checksums_of_former_properties_are_removed(
    tmp_path: Path, client: chronolake.Client, namespace: str
) -> None:
    path = unpacked("cow9", tmp_path)
    # Hadoop writes it on local disks, and its readers fail if it is of another content.
    checksum = path / ".hoodie/.hoodie.properties.crc"
    checksum.write_bytes(b"crc")
    name = adopting.adopt(client, Options(name=f"{namespace}.orders", base_path=str(path))).table
    assert not checksum.exists()
    checksum.write_bytes(b"crc")
    releasing.release(client, name)
    assert not checksum.exists()


def test_a_released_table_can_be_adopted_again(
    client: chronolake.Client, table: chronolake.Table, path: Path
) -> None:
    stored_tables.insert(table, path, [NEW])
    releasing.release(client, table.name)

    options = Options(name=table.name, base_path=str(path), reuse_base_path=True)
    again = client.table(adopting.adopt(client, options).table)

    assert again.definition.table_id != table.definition.table_id
    assert stored_tables.rows_by_snapshot(again, path) == [*rows_of_hudi("cow9"), NEW]


def test_a_table_that_was_created_here_and_changed_its_schema_can_be_released_and_adopted(
    client: chronolake.Client, tmp_path: Path
) -> None:
    made = PublishedTable(client, tmp_path / "lake")
    made.write(row(1))
    made.table.change_schema([AddColumn("note", "string")])
    made.write(row(2) | {"note": "new"}, bucket=1)
    rows, schema = made.rows(), made.table.definition.schema
    releasing.release(client, made.table.name)

    options = Options(name=made.table.name, base_path=str(made.folder), reuse_base_path=True)
    adopted = adopting.adopt(client, options)

    assert adopted.instants == 2
    made.table = client.table(adopted.table)
    assert [field.name for field in made.table.definition.schema] == [field.name for field in schema]
    assert made.rows() == rows
    hudi_rows = [*made.hudi_rows()]
    made.write(row(3), bucket=2)
    assert made.publish().foreign_files == []
    assert made.hudi_rows() == [*hudi_rows, row(3) | {"note": None}]


def test_a_table_with_files_of_another_writer_is_not_released_at_any_try(
    client: chronolake.Client, tmp_path: Path
) -> None:
    made = PublishedTable(client, tmp_path / "lake")
    made.write(row(1))
    made.publish()
    (made.folder / ".hoodie/timeline/29991122193400000.commit.requested").touch()

    for _ in range(3):
        with pytest.raises(CannotRelease, match=r"29991122193400000\.commit\.requested"):
            releasing.release(client, made.table.name)

    assert client.table(made.table.name).definition.name == made.table.name


def test_a_release_waits_for_another_publisher(client: chronolake.Client, tmp_path: Path) -> None:
    made = PublishedTable(client, tmp_path / "lake")
    made.write(row(1))
    lease = made.lease("other")
    messages: list[str] = []

    def end_lease(message: str) -> None:
        messages.append(message)
        body = {"publisher": "other", "epoch": lease.epoch, "version": lease.published_version}
        made.post("publication", body | {"release": True})

    releasing.release(client, made.table.name, progress=end_lease)

    assert messages == [f"{made.table.name} is being published; waiting for it up to 30 seconds"]


def test_a_released_table_that_never_had_a_file_is_adopted_again(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    made = PublishedTable(client, tmp_path / "lake", partition_fields=[])
    made.publish()
    releasing.release(client, made.table.name)
    options = Options(name=f"{namespace}.again", base_path=str(made.folder), reuse_base_path=True)
    table = client.table(adopting.adopt(client, options).table)
    assert [field.name for field in table.definition.schema] == ["id", "day", "name"]
    assert table.snapshot().slices == []
    assert made.hudi_rows() == []

    made.table = table
    made.write(row(1))
    made.publish()
    assert made.hudi_rows() == [row(1)]


def test_a_release_gives_up_and_names_the_other_publisher(
    client: chronolake.Client,
    tmp_path: Path,
    shared_server_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = PublishedTable(client, tmp_path / "lake")
    made.lease("other")
    monkeypatch.setattr(releasing, "WAIT_SECONDS", 0.0)
    assert main.run(["--url", shared_server_url, "hudi", "release", made.table.name, "--yes"]) != 0
    refusal = capsys.readouterr().err
    assert "is published by 'other'" in refusal
    assert f"Commands: chronolake hudi status {made.table.name}" in refusal


def test_the_command_line_releases(
    client: chronolake.Client,
    table: chronolake.Table,
    shared_server_url: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["--url", shared_server_url, "hudi", "release", table.name, "--yes"]) == 0
    shown = capsys.readouterr().out.replace("\n", " ")
    assert "hoodie.index.type=SIMPLE" in shown
    assert "partitionpath" not in shown, "the table has no partitions"


def test_the_command_line_asks_only_about_a_table_that_exists(
    namespace: str, shared_server_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["--url", shared_server_url, "hudi", "release", f"{namespace}.nothing"]) == output.NOT_FOUND
    assert "[y/N]" not in capsys.readouterr().err


def test_the_terminal_shows_an_adopted_table_without_its_former_properties(
    table: chronolake.Table, shared_server_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["--url", shared_server_url, "tables", "show", table.name]) == 0
    shown = capsys.readouterr().out
    assert "bloom" in shown
    assert "hudi.adopted=(" in shown
    assert "hoodie.table.name" not in shown


def test_a_published_table_that_was_dropped_is_adopted_once_its_guard_is_out(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    made = PublishedTable(client, tmp_path / "lake")
    made.write(row(1))
    made.publish()
    client.drop_table(made.table.name)
    options = Options(name=f"{namespace}.again", base_path=str(made.folder), reuse_base_path=True)

    with pytest.raises(CannotAdopt, match=r"was dropped, take the lines .* out of hoodie\.properties"):
        adopting.adopt(client, options)
    path = made.folder / ".hoodie" / "hoodie.properties"
    guard = ("hoodie.table.keygenerator.class", "chronolake.table-id")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith(guard)))
    made.table = client.table(adopting.adopt(client, options).table)
    assert made.rows() == [row(1)]


def test_a_refused_write_stat_names_the_file_of_the_timeline(
    client: chronolake.Client, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = PublishedTable(client, tmp_path / "lake")
    time = made.write(row(1))
    releasing.release(client, made.table.name)
    adoption_of = history.adoption_of

    def with_a_file_twice(*arguments: Any) -> Any:
        adoption = adoption_of(*arguments)
        instants = [
            msgspec.structs.replace(instant, write_stats=instant.write_stats * 2)
            for instant in adoption.request.instants
        ]
        request = msgspec.structs.replace(adoption.request, instants=instants)
        return msgspec.structs.replace(adoption, request=request)

    monkeypatch.setattr(history, "adoption_of", with_a_file_twice)
    options = Options(name=f"{namespace}.again", base_path=str(made.folder), reuse_base_path=True)
    with pytest.raises(CannotAdopt, match=rf"\.hoodie/timeline/{time}_\d+\.commit names files .* twice"):
        adopting.adopt(client, options)
