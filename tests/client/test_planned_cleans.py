"""Cleans that the client executes: which files are deleted, which stay, and the state after a crash."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

import chronolake
from chronolake import Action, Reading, State, errors
from chronolake.cli import output
from chronolake_model.markers import DeletedFile
from tests.client.conftest import SCHEMA, Cli
from tests.client.dying_clean import WRITER
from tests.client.stored import Stored
from tests.fix_s3 import S3, Fault
from tests.fix_stores import Store

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 20.0
DYING_STEPS = 16
"""Two steps around each of: the plan, the earlier reports, two reported deletions, the end, the next plan.
A further step would not be reached."""


def table_in(client: chronolake.Client, name: str, store: Store, **properties: str) -> Stored:
    table = client.create_table(
        name,
        base_path=store.base_path,
        schema=SCHEMA,
        record_key_fields=["id"],
        partition_fields=["name"],
        properties={key.replace("_", "."): value for key, value in properties.items()},
    )
    return Stored(table, store)


@pytest.fixture
def stored(server_url: str, namespace: str, store: Store) -> Iterator[Stored]:
    """A table in each kind of store."""
    with chronolake.connect(server_url, retry_seconds=10, storage_options=store.options) as client:
        yield table_in(client, f"{namespace}.cleaned", store)


@pytest.fixture
def local(client: chronolake.Client, namespace: str, tmp_path: Path) -> Stored:
    """A table in a local folder."""
    return table_in(client, f"{namespace}.cleaned", Store(f"{tmp_path.as_uri()}/lake", None))


def in_storage(stored: Stored) -> set[str]:
    return {file.path for file in stored.storage.listing()}


def seen(stored: Stored, as_of: str | None = None) -> set[str]:
    """The files of the snapshot."""
    slices = stored.table.snapshot(as_of).slices
    return {file_slice.base_file.path for file_slice in slices if file_slice.base_file is not None}


def time_of(instant: chronolake.Instant) -> str:
    assert instant.completion_time is not None
    return instant.completion_time


def test_a_clean_leaves_the_needed_files_and_no_orphan(stored: Stored) -> None:
    first, second, third = (stored.publish(0, 1) for _ in range(3))
    before = in_storage(stored)

    [done] = stored.table.clean(retain_commits=2)

    assert (done.action, done.state) == (Action.CLEAN, State.COMPLETED)
    assert in_storage(stored) == seen(stored) | seen(stored, time_of(second))
    assert len(before) - len(in_storage(stored)) == 2
    assert stored.orphans() == []
    gone = {deletion.path for deletion in stored.table.deletions(done.requested_time)}
    assert gone == before - in_storage(stored)
    with pytest.raises(errors.HistoryCleaned):
        stored.table.snapshot(time_of(first))
    assert stored.table.reload().definition.cleaned_before == time_of(second)
    assert stored.table.clean(retain_commits=2) == []
    assert len(seen(stored, time_of(third))) == 2


def test_a_file_that_is_there_after_its_clean_is_an_orphan(local: Stored) -> None:
    first = local.publish(0)
    local.publish(0)
    local.table.clean(retain_commits=1)

    late = local.write_file(first.requested_time, 0)

    [(path, reason)] = local.orphans()
    assert (path, reason) == (DeletedFile("name=1", late.file_name).path, chronolake.OrphanReason.NOT_NAMED)


def test_a_preview_deletes_nothing(local: Stored) -> None:
    local.publish(0)
    last = local.publish(0)
    before = in_storage(local)

    shown = local.table.preview_clean(retain_versions=1)

    assert set(shown.files_to_delete) == before - seen(local)
    assert (shown.cleaned_before, shown.has_more, in_storage(local)) == (time_of(last), False, before)
    with pytest.raises(ValueError, match="one of them"):
        local.table.preview_clean(retain_versions=1, retain_hours=1)


@pytest.mark.parametrize("step", range(DYING_STEPS))
def test_a_clean_that_is_killed_at_any_step_is_resumed(server_url: str, local: Stored, step: int) -> None:
    local.publish(0, 1)
    local.publish(0, 1)
    before = in_storage(local)
    command = [sys.executable, "-m", "tests.client.dying_clean", server_url, local.table.name, str(step)]

    died = subprocess.run(command, cwd=ROOT, timeout=60, check=False)
    local.table.clean(retain_commits=1, writer=WRITER)

    assert died.returncode == -signal.SIGKILL
    assert in_storage(local) == seen(local)
    assert local.orphans() == []
    [clean] = local.table.instants(action=Action.CLEAN)
    assert clean.state is State.COMPLETED
    gone = {deletion.path for deletion in local.table.deletions(clean.requested_time)}
    assert gone == before - in_storage(local)


def test_a_clean_whose_files_cannot_be_deleted_waits_and_is_resumed(
    server_url: str, namespace: str, s3: S3
) -> None:
    with chronolake.connect(server_url, storage_options=s3.options) as client:
        stored = table_in(client, f"{namespace}.refused", Store(s3.base_path, s3.options))
        stored.publish(0, 1)
        stored.publish(0, 1)
        fault = Fault("DELETE", ".parquet", 403, "AccessDenied", times=2)
        s3.faults.append(fault)

        with pytest.raises(errors.StorageFailed, match="1 of 2 files"):
            stored.table.clean(retain_commits=1)
        [waiting] = stored.table.instants(action=Action.CLEAN)
        assert waiting.state is State.REQUESTED
        [done] = stored.table.clean(retain_commits=1, writer="another")

        assert (done.requested_time, done.writer) == (waiting.requested_time, "another")
        assert in_storage(stored) == seen(stored)


def test_where_the_server_executes_the_plan_waits(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    stored = table_in(
        client, f"{namespace}.left", Store(f"{tmp_path.as_uri()}/lake", None), deletions_executor="server"
    )
    stored.publish(0)
    stored.publish(0)
    before = in_storage(stored)

    [waiting] = stored.table.clean(retain_commits=1)

    assert (waiting.state, in_storage(stored)) == (State.REQUESTED, before)
    with stored.table.execute(waiting.requested_time) as executed:
        assert len(executed.left_over()) == 1
    assert in_storage(stored) == seen(stored)


def test_files_read_under_a_lease_stay_until_the_block_ends(local: Stored) -> None:
    first = local.publish(0)
    with local.table.reading(reader="job") as reading:
        local.publish(0)
        assert (reading.as_of, reading.lease.reader) == (first.completion_time, "job")
        assert [reader.lease_id for reader in local.table.readers()] == [reading.lease.lease_id]
        assert local.table.clean(retain_commits=1) == []
        assert seen(local, reading.as_of) <= in_storage(local)

    assert reading.lost is None
    assert list(local.table.readers()) == []
    assert len(local.table.clean(retain_commits=1)) == 1
    with pytest.raises(errors.HistoryCleaned):
        local.table.reading(first.completion_time)


def test_a_lease_is_renewed_in_the_background(local: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    local.publish(0)
    renewed, renew = Event(), Reading._renew

    def note(reading: Reading) -> None:
        renew(reading)
        renewed.set()

    monkeypatch.setattr(Reading, "_renew", note)
    with local.table.reading(lease_seconds=1) as reading:
        taken = reading.lease.expires_at
        assert renewed.wait(WAIT_SECONDS)

    assert reading.lease.expires_at > taken
    assert reading.lost is None


def test_a_lost_lease_is_reported_to_its_reader(local: Stored) -> None:
    local.publish(0)
    with local.table.reading(lease_seconds=1) as reading:
        reading.end()
        assert reading._renewal is not None
        reading._renewal._task.join(WAIT_SECONDS)

    assert isinstance(reading.lost, errors.ReaderNotFound)
    with pytest.raises(errors.ReaderNotFound):
        reading.renew()


def test_the_terminal_shows_the_plan_prompts_and_cleans(
    cli: Cli, stored: Stored, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("no\n"))
    options = store.options or {}
    reach = [text for name, value in options.items() for text in ("--storage", f"{name}={value}")]
    stored.publish(0)
    last = stored.publish(0)
    before = in_storage(stored)
    name = stored.table.name

    shown = cli("clean", name, "--retain-commits", "1", "--dry-run")
    declined = cli("clean", name, "--retain-commits", "1", *reach)
    assert (in_storage(stored), declined.code) == (before, 1)
    assert "1 file (" in shown.out
    assert time_of(last) in shown.out
    assert "Clean" in declined.err
    done = cli("clean", name, "--retain-versions", "1", "--yes", *reach)

    assert done.code == 0, done.err
    assert "1 file deleted" in done.out
    assert in_storage(stored) == seen(stored)
    assert "nothing to clean" in cli("clean", name, "--yes", *reach).out
    assert cli("clean", name, "--yes", "--json", *reach).json == {"cleans": []}
    assert cli("clean", name, "--dry-run", "--json").json["files_to_delete"] == []


@pytest.mark.parametrize(
    "options",
    [
        ["--retain-commits", "0"],
        ["--retain-hours", "x"],
        ["--retain-commits", "1", "--retain-hours", "1"],
        ["--retain-hours", "1", "--retain-versions", "1"],
    ],
)
def test_a_policy_that_makes_no_sense_is_a_usage_error(cli: Cli, options: list[str]) -> None:
    assert cli("clean", "shop.orders", "--yes", *options).code == output.USAGE
