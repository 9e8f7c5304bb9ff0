"""Adopting tables that Hudi has written: the same rows before and after, for Hudi's reader and for ours."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import chronolake
from chronolake.cli import main
from chronolake.hudi import adopting, history, releasing, stored
from chronolake.hudi.adopting import Adopted
from chronolake.hudi.definitions import CannotAdopt, Options
from chronolake_hudi import java_properties, properties
from chronolake_model.adoption import ADOPTED_PROPERTY
from chronolake_model.vocabulary import State
from chronolake_storage.opening import open_files
from tests.fix_s3 import S3
from tests.hudi import stored_tables
from tests.hudi.stored_tables import rows_by_hudi_rs, rows_by_snapshot, rows_of_hudi, unpacked

Adopt = Callable[..., Adopted]


@pytest.fixture
def adopt(client: chronolake.Client, namespace: str) -> Adopt:
    """Adopts the table in a folder under the folder's name."""

    def run(path: Path, *, dry_run: bool = False, roll_back_pending: bool = False) -> Adopted:
        name = f"{namespace}.{path.name}"
        wanted = Options(name=name, base_path=str(path), roll_back_pending=roll_back_pending)
        return adopting.adopt(client, wanted, dry_run=dry_run)

    return run


def files_below(path: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def reasons(adopt: Adopt, path: Path, **options: bool) -> str:
    """The reasons for which a table is not adopted; nothing has changed in its folder."""
    before = files_below(path)
    with pytest.raises(CannotAdopt) as refused:
        adopt(path, **options)
    assert files_below(path) == before
    return "\n".join(refused.value.reasons)


def state(path: Path, **changes: str) -> None:
    """Change properties in hoodie.properties; an empty text removes one."""
    file = path / properties.PATH
    stated = java_properties.decode(file.read_bytes(), properties.PATH) | {
        name.replace("__", "."): text for name, text in changes.items()
    }
    file.write_bytes(java_properties.encode({key: text for key, text in stated.items() if text}, "test"))


def test_a_folder_that_does_not_exist_is_not_adopted(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    with pytest.raises(CannotAdopt, match="sees no such folder: give the folder of the Hudi table"):
        adopt(tmp_path / "nowhere")


def test_a_timeline_in_local_time_keeps_its_digits_as_the_answer_says(adopt: Adopt, tmp_path: Path) -> None:
    path = unpacked("cow9", tmp_path)
    state(path, hoodie__table__timeline__timezone="LOCAL")
    [note] = [note for note in adopt(path).notes if "timezone" in note]
    assert "the local time of its machines. Chronolake keeps their digits and reads them as UTC" in note


@pytest.mark.parametrize("name", stored_tables.COPY_ON_WRITE)
def test_both_readers_see_the_rows_that_hudi_wrote(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    assert rows_by_hudi_rs(path) == rows_of_hudi(name)

    table = client.table(adopt(path).table)

    assert rows_by_snapshot(table, path) == rows_of_hudi(name)
    assert rows_by_hudi_rs(path) == rows_of_hudi(name)


@pytest.mark.parametrize("name", stored_tables.VERSION_6)
def test_a_table_of_version_6_becomes_one_of_version_8(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)

    adopted = adopt(path)

    assert (adopted.table_version, client.table(adopted.table).publication().lag_versions) == (6, 0)
    assert "hoodie.table.version=8" in (path / properties.PATH).read_text()
    assert rows_by_hudi_rs(path) == rows_of_hudi(name)
    if name != "compacted6":
        assert rows_by_snapshot(client.table(adopted.table), path) == rows_of_hudi(name)


@pytest.mark.parametrize("name", ["cow8", "cow9"])
def test_what_is_written_after_the_adoption_is_published_behind_it(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    before = files_below(path)
    table = client.table(adopt(path).table)
    assert table.publication().lag_versions == 0

    requested = stored_tables.insert(table, path, [["2026-01-01", 500, "new", 1.0, 99]])
    foreign = path / ".hoodie/timeline/29991122193400000.commit.requested"
    foreign.write_bytes(b"")
    assert table.publish(publisher="another").foreign_files == [str(foreign.relative_to(path))]
    foreign.unlink()

    assert rows_by_hudi_rs(path) == [*rows_of_hudi(name), ["2026-01-01", 500, "new", 1.0, 99]]
    after = files_below(path)
    new = sorted(file for file in after if file not in before and "/timeline/" in file)
    assert [file.rpartition("/")[2][:17] for file in new] == [requested]
    assert {file: after[file] for file in before if "/timeline/" in file} == {
        file: content for file, content in before.items() if "/timeline/" in file
    }


@pytest.mark.parametrize("name", stored_tables.MERGE_ON_READ)
def test_both_readers_have_the_same_slices_of_merge_on_read(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    slices = stored_tables.slices_by_hudi_rs(path)

    table = client.table(adopt(path).table)

    assert stored_tables.slices_by_snapshot(table) == slices
    assert rows_by_hudi_rs(path) == rows_of_hudi(name)


def test_instants_keep_their_times_and_operations(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    path = unpacked("cow8", tmp_path)
    names = sorted(file.name for file in (path / ".hoodie/timeline").iterdir() if "_" in file.name)

    instants = {instant.requested_time: instant for instant in client.table(adopt(path).table).instants()}

    for name in names:
        times, _, action = name.partition(".")
        requested, _, completed = times.partition("_")
        if action != "savepoint":
            assert (instants[requested].completion_time, instants[requested].action) == (completed, action)
    operations = [str(instant.operation) for _, instant in sorted(instants.items())]
    assert operations == [
        *("insert", "upsert", "unknown", "delete", "insert_overwrite", "upsert", "unknown", "upsert")
    ]
    [savepoint] = [instant for instant in instants.values() if instant.action == "savepoint"]
    assert savepoint.target == names[1].partition("_")[0]


def test_what_hudi_has_cleaned_cannot_be_read_as_of(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    path = unpacked("cow8", tmp_path)
    adopted = adopt(path)
    table = client.table(adopted.table)
    assert adopted.cleaned_before is not None

    first = rows_by_snapshot(table, path, adopted.cleaned_before)

    assert [row[-1] for row in first] == [1, 1, 1, 2, 2, 2, 1, 1, 1]
    with pytest.raises(chronolake.errors.HistoryCleaned):
        table.snapshot(str(int(adopted.cleaned_before) - 1))
    assert any("is served as of" in note for note in adopted.notes)


def test_archived_instants_come_in_with_the_times_of_the_archive(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    path = unpacked("archived8", tmp_path)
    adopted = adopt(path)

    first = next(iter(client.table(adopted.table).instants()))

    # None of its files exists any more.
    assert (first.requested_time, first.completion_time) == ("20261122193431951", "20261122193432580")
    assert any("archived" in note for note in adopted.notes)


def test_a_check_finds_the_files_and_records_that_the_timeline_names(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    check = client.table(adopt(unpacked("archived8", tmp_path)).table).check()

    # Some records are of instants that Hudi has archived, and whose own files it has cleaned.
    assert check.totals == []
    assert check.records == len(rows_of_hudi("archived8"))


def test_the_former_properties_cannot_be_changed(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    table = client.table(adopt(unpacked("cow9", tmp_path)).table)
    with pytest.raises(chronolake.errors.InvalidTable, match="cannot change"):
        table.alter(unset=[ADOPTED_PROPERTY])


def test_the_table_is_guarded_and_its_other_properties_stay(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    path = unpacked("cow9", tmp_path)
    before = java_properties.decode((path / properties.PATH).read_bytes(), "")

    adopted = adopt(path)

    after = java_properties.decode((path / properties.PATH).read_bytes(), "")
    assert after.pop("hoodie.table.keygenerator.class") == properties.GUARD_CLASS
    assert after.pop("chronolake.table-id") == adopted.table_id
    left_out = {"hoodie.table.checksum", "hoodie.table.metadata.partitions"}
    left_out.add("hoodie.table.metadata.partitions.inflight")
    assert after == {key: text for key, text in before.items() if key not in left_out}
    kept = client.table(adopted.table).definition.properties[ADOPTED_PROPERTY]
    assert java_properties.decode(kept.encode("latin-1"), "") == before


def test_a_dry_run_changes_nothing(client: chronolake.Client, adopt: Adopt, tmp_path: Path) -> None:
    path = unpacked("cow9", tmp_path)
    before = files_below(path)

    adopted = adopt(path, dry_run=True)

    assert (adopted.table_id, adopted.instants, files_below(path)) == (None, 8, before)
    with pytest.raises(chronolake.errors.TableNotFound):
        client.table(adopted.table)


def test_a_second_run_finishes_what_the_first_one_left(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unpacked("pending8", tmp_path)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    for step in ("_take_folder", "_roll_back"):
        with monkeypatch.context() as killed:
            killed.setattr(adopting, step, fail)
            with pytest.raises(KeyboardInterrupt):
                adopt(path, roll_back_pending=True)
    adopted = adopt(path, roll_back_pending=True)

    assert adopted.rolled_back == ["20261122193515675"]
    assert adopted == adopt(path, roll_back_pending=True) or adopted.table_id
    assert rows_by_hudi_rs(path) == rows_by_snapshot(client.table(adopted.table), path)


def test_pending_instants_are_named_and_refused(adopt: Adopt, tmp_path: Path) -> None:
    assert "commit 20261122193515675 (inflight)" in reasons(adopt, unpacked("pending8", tmp_path))


@pytest.mark.parametrize("name", ["pending8", "pendingmor8"])
def test_pending_instants_are_rolled_back_with_their_files(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)

    adopted = adopt(path, roll_back_pending=True)

    table = client.table(adopted.table)
    assert adopted.rolled_back
    for requested in adopted.rolled_back:
        assert table.instant(requested).state is State.ROLLED_BACK
        assert not [file for file in files_below(path) if requested in file]
    assert rows_by_hudi_rs(path) == rows_of_hudi(name)
    assert stored_tables.slices_by_hudi_rs(path) == stored_tables.slices_by_snapshot(table)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hoodie__table__version": "7"}, "versions 3, 4, 5, 6, 8, 9 are read"),
        ({"hoodie__table__base__file__format": "ORC"}, "only Parquet"),
        ({"hoodie__datasource__write__drop__partition__columns": "true"}, "lack the partition columns"),
        ({"hoodie__populate__meta__fields": "false"}, "meta columns"),
        ({"hoodie__bootstrap__base__path": "/elsewhere"}, "bootstrapped"),
        ({"hoodie__record__merge__mode": "CUSTOM"}, "class of its own"),
        ({"hoodie__table__keygenerator__class": properties.GUARD_CLASS}, "through Chronolake already"),
        ({"hoodie__table__name": ""}, "is missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_a_table_that_cannot_be_adopted_is_refused_with_the_reason(
    adopt: Adopt, tmp_path: Path, changes: dict[str, str], reason: str
) -> None:
    path = unpacked("cow9", tmp_path)
    state(path, **changes)
    assert reason in reasons(adopt, path)


def test_a_damaged_file_of_the_timeline_is_refused(adopt: Adopt, tmp_path: Path) -> None:
    path = unpacked("cow9", tmp_path)
    [file] = (path / ".hoodie/timeline").glob("*_*.clean")
    file.write_bytes(file.read_bytes()[:100])
    assert file.name in reasons(adopt, path)


def test_a_missing_live_file_is_refused(adopt: Adopt, tmp_path: Path) -> None:
    path = unpacked("cow9", tmp_path)
    sorted(path.glob("*.parquet"), key=lambda file: file.name[-25:])[-1].unlink()
    assert "is live and not there" in reasons(adopt, path)


def test_a_file_of_another_size_is_refused(adopt: Adopt, tmp_path: Path) -> None:
    path = unpacked("cow9", tmp_path)
    [*_, file] = sorted(path.glob("*.parquet"), key=lambda file: file.name[-25:])
    file.write_bytes(file.read_bytes()[:-1])
    assert "its commit says" in reasons(adopt, path)


def test_a_file_that_its_commit_does_not_name_is_refused(adopt: Adopt, tmp_path: Path) -> None:
    path = unpacked("cow9", tmp_path)
    [file, *_] = path.glob("*.parquet")
    shutil.copy(file, path / file.name.replace("_0-", "_9-"))
    assert "does not name it" in reasons(adopt, path)


def test_files_of_failed_writes_are_not_brought_in(adopt: Adopt, tmp_path: Path) -> None:
    path = unpacked("cow9", tmp_path)
    [file, *_] = path.glob("*.parquet")
    left_over = path / f"{file.name[:-25]}20261122193300000.parquet"
    shutil.copy(file, left_over)

    adopted = adopt(path)

    assert any(left_over.name in note for note in adopted.notes)
    assert rows_by_hudi_rs(path) == rows_of_hudi("cow9")


def test_the_folder_of_a_table_of_chronolake_is_refused(adopt: Adopt, tmp_path: Path) -> None:
    path = unpacked("cow9", tmp_path)
    (path / ".hoodie/.chronolake-claim.json").write_text("{}")
    assert "--reuse-base-path" in reasons(adopt, path)


def test_a_writer_that_commits_during_the_adoption_keeps_its_table(
    client: chronolake.Client, adopt: Adopt, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unpacked("cow9", tmp_path)
    before = (path / properties.PATH).read_bytes()
    original = adopting._take_folder

    def write_first(*arguments: object) -> None:
        (path / ".hoodie/timeline/20261122193400000.commit.requested").write_bytes(b"")
        original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(adopting, "_take_folder", write_first)
    with pytest.raises(CannotAdopt, match="written to the table while"):
        adopt(path)

    assert (path / properties.PATH).read_bytes() == before
    with pytest.raises(chronolake.errors.TableNotFound):
        client.table(f"{namespace}.cow9")


def test_the_command_line_adopts(
    client: chronolake.Client,
    namespace: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    shared_server_url: str,
) -> None:
    path, name = unpacked("cow8", tmp_path), f"{namespace}.orders"
    command = ["--url", shared_server_url, "hudi", "adopt", str(path), "--table", name]

    assert main.run([*command, "--dry-run"]) == 0
    assert "nothing was changed" in capsys.readouterr().out
    assert main.run(command) == 0
    assert "served as of" in capsys.readouterr().out
    assert client.table(name).definition.base_path == str(path)


def test_the_command_line_says_why_not(
    namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], shared_server_url: str
) -> None:
    path = unpacked("pending8", tmp_path)

    code = main.run(["--url", shared_server_url, "hudi", "adopt", str(path), "--table", f"{namespace}.orders"])

    assert code == 1
    assert "--roll-back-pending" in capsys.readouterr().err


def test_every_real_table_gives_a_history_or_a_reason(tmp_path: Path) -> None:
    for archive in sorted(stored_tables.TABLES.glob("*.tar.gz")):
        name = archive.name.partition(".")[0]
        table = stored.read(open_files(str(unpacked(name, tmp_path))))
        options = Options(name=f"shop.{name}", base_path=f"/{name}", roll_back_pending=True)
        try:
            times = [
                time
                for instant in history.adoption_of(table, options).request.instants
                for time in (instant.requested_time, instant.completion_time)
                if time is not None
            ]
        except CannotAdopt as refused:
            assert refused.reasons
        else:
            assert len(set(times)) == len(times)


def test_a_table_in_s3_is_adopted_and_released(
    namespace: str, shared_server_url: str, s3: S3, tmp_path: Path
) -> None:
    path = unpacked("pending8", tmp_path)
    files = open_files(s3.base_path, s3.options)
    for name, content in files_below(path).items():
        files.create(name, content)
    shown = {name: text for name, text in s3.options.items() if name in ("endpoint_override", "region")}
    options = Options(
        name=f"{namespace}.orders",
        base_path=s3.base_path,
        roll_back_pending=True,
        properties={f"storage.{name}": text for name, text in shown.items()},
    )

    with chronolake.connect(shared_server_url, storage_options=s3.options) as client:
        adopted = adopting.adopt(client, options, storage_options=s3.options)
        [live] = client.table(adopted.table).snapshot().slices
        releasing.release(client, adopted.table, storage_options=s3.options)

    assert adopted.rolled_back == ["20261122193515675"]
    names = {file.path for file in [*files.listing(), *files.listing(".hoodie")]}
    assert not [name for name in names if "20261122193515675" in name and not name.endswith(".rollback")]
    assert live.base_file is not None
    assert live.base_file.path in names
    left = files.read(properties.PATH)
    assert left is not None
    assert b"ThisTableIsWrittenThroughChronolake" not in left.body
