"""Folders that another table had, or has now: nothing is shown of it, and nothing of it is overwritten."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import chronolake
from chronolake import errors
from chronolake_model.publication import Publication, PublishedFile
from chronolake_model.vocabulary import TableType
from chronolake_storage import claims, publishing
from chronolake_storage.errors import ClaimRefused, StorageError
from chronolake_storage.local import LocalFiles
from tests.fix_server import ServerProcess
from tests.published import PUBLISHES, PublishedTable, row

THEIRS = "hoodie.table.name=theirs\nhoodie.table.type=COPY_ON_WRITE\n"


def after_a_dropped_table(client: chronolake.Client, folder: Path) -> PublishedTable:
    """A table in the folder of a dropped one, which has left two base files and a log file."""
    former = PublishedTable(client, folder, type=TableType.MERGE_ON_READ, properties={"hudi.publish": "false"})
    former.write(row(1), row(2, day="b"))
    former.append(row(3))
    client.drop_table(former.table.name)
    return PublishedTable(client, folder, reuse_base_path=True)


def remove_data(folder: Path) -> None:
    for path in folder.glob("day=*"):
        shutil.rmtree(path)


def replace_folder(table: PublishedTable) -> None:
    """Remove the folder of a table, and put another table of Hudi there."""
    # At once: a publisher may write to the folder.
    table.folder.rename(table.folder.with_name("former"))
    (table.folder / ".hoodie").mkdir(parents=True, exist_ok=True)
    (table.folder / publishing.PROPERTIES_PATH).write_text(THEIRS)


def properties(table: PublishedTable) -> str:
    return (table.folder / publishing.PROPERTIES_PATH).read_text()


def test_a_table_is_not_published_beside_the_files_of_a_dropped_one(
    client: chronolake.Client, tmp_path: Path
) -> None:
    table = after_a_dropped_table(client, tmp_path / "lake")
    with pytest.raises(errors.StorageFailed, match=r"3 data files from before .*, such as day=a/\."):
        table.publish()
    assert not (table.folder / publishing.PROPERTIES_PATH).exists()

    remove_data(table.folder)
    table.write(row(9))
    table.publish()
    assert table.hudi_rows() == table.rows() == [row(9)]


def test_a_server_says_that_files_of_a_dropped_table_are_there_and_publishes_when_they_are_gone(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    with chronolake.connect(new_server(dsn, *PUBLISHES).url) as client:
        table = after_a_dropped_table(client, tmp_path / "lake")
        failed = table.wait_for(lambda publication: publication.failure is not None)
        assert "3 data files from before" in str(failed.failure)
        remove_data(table.folder)
        assert table.published().failure is None


def test_only_the_first_publication_lists_the_folder(
    table: PublishedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.write(row(1))
    table.publish()
    monkeypatch.delattr(publishing, "refuse_older_files")
    table.write(row(2), bucket=1)
    assert table.publish().lag_versions == 0


@pytest.mark.parametrize(
    ("name", "is_older"),
    [
        ("0-0_1-0-1_20251231235959999.parquet", True),
        ("0-0_1-0-1_20251231235959.orc", True),
        (".0-0_20251231235959999999.log.1_1-0-1", True),
        ("0-0_1-0-1_20260101000000000.parquet", False),
        ("0-0_1-0-1_20260101000000000000.parquet", False),
        (".0-0_20260101000000001.log.1_1-0-1", False),
        ("part-0001.parquet", False),
        (".hoodie_partition_metadata", False),
    ],
)
def test_data_files_of_all_versions_of_hudi_are_known_by_their_names(
    tmp_path: Path, name: str, is_older: bool
) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b" / name).touch()
    try:
        publishing.refuse_older_files(LocalFiles(str(tmp_path)), "20260101000000000")
    except StorageError as exc:
        assert is_older and "1 data files" in str(exc)
    else:
        assert not is_older


def test_another_table_that_came_into_the_folder_of_a_published_one_is_not_overwritten(
    table: PublishedTable,
) -> None:
    table.write(row(1))
    table.publish()
    replace_folder(table)
    table.write(row(2), bucket=1)
    for publisher in ("client", "another"):
        with pytest.raises(errors.StorageFailed, match="of another Hudi table"):
            table.table.publish(publisher=publisher)
    assert properties(table) == THEIRS


def test_a_server_does_not_overwrite_another_table_either(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    with chronolake.connect(new_server(dsn, *PUBLISHES).url) as client:
        table = PublishedTable(client, tmp_path / "lake")
        table.write(row(1))
        table.published()
        replace_folder(table)
        table.table.alter(set={"owner": "sales"})
        failed = table.wait_for(lambda publication: publication.failure is not None)
        assert "of another Hudi table" in str(failed.failure)
        assert properties(table) == THEIRS


def test_a_reported_version_without_its_files_does_not_permit_overwriting_another_table(
    table: PublishedTable,
) -> None:
    table.write(row(1))
    lease = table.lease("one")
    table.report(lease, 3)
    replace_folder(table)
    with pytest.raises(errors.StorageFailed, match="of another Hudi table"):
        table.table.publish(publisher="one")
    assert properties(table) == THEIRS


def test_no_step_and_no_check_overwrites_the_properties_of_another_table(
    table: PublishedTable,
) -> None:
    table.publish()
    expected = PublishedFile(publishing.PROPERTIES_PATH, properties(table).encode())
    (table.folder / publishing.PROPERTIES_PATH).unlink()
    (table.folder / publishing.PROPERTIES_PATH).write_text(THEIRS)
    with pytest.raises(ClaimRefused, match="of another Hudi table"):
        publishing.put_right(LocalFiles(str(table.folder)), [expected], {})
    assert properties(table) == THEIRS


@pytest.mark.parametrize("damage", ["", "hoodie.table.type=COPY_ON_WRITE\n", "hoodie.table.name=\n"])
def test_properties_that_name_no_table_are_put_right(table: PublishedTable, damage: str) -> None:
    table.write(row(1))
    table.publish()
    published = properties(table)
    (table.folder / publishing.PROPERTIES_PATH).unlink()
    (table.folder / publishing.PROPERTIES_PATH).write_text(damage)
    table.table.publish(publisher="another")
    assert properties(table) == published


def test_a_publisher_that_runs_stops_when_another_table_has_claimed_the_folder(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    def is_refused(publication: Publication) -> bool:
        return "is claimed by the table" in str(publication.failure)

    with chronolake.connect(new_server(dsn, *PUBLISHES).url) as client:
        table = PublishedTable(client, tmp_path / "lake")
        table.write(row(1))
        table.published()
        timeline = table.timeline()
        claim = table.folder / claims.PATH
        text = claim.read_text().replace(table.table.definition.table_id, "another")
        claim.unlink()
        claim.write_text(text)
        table.table.begin().complete()
        table.wait_for(is_refused)
        assert table.timeline() == timeline
