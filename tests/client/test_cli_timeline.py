"""The command ``chronolake``: timelines, events, instants, snapshots and changes, for people and as JSON."""

from __future__ import annotations

import json

import pytest

import chronolake
from chronolake.cli import output
from tests.client.conftest import Cli
from tests.client.test_writes import publish


def test_the_timeline_shows_the_newest_first_and_applies_the_filters(cli: Cli, table: chronolake.Table) -> None:
    done = [publish(table, bucket).requested_time for bucket in range(3)]
    pending = table.begin().requested_time

    def times(*args: str) -> list[str]:
        return [
            instant["requested_time"]
            for instant in cli("timeline", table.name, "--json", *args).json["instants"]
        ]

    assert times() == [pending, *reversed(done)]
    assert times("--limit", "2") == [pending, done[2]]
    assert times("--limit", "2", "--reverse") == [done[2], pending]
    assert times("--state", "completed", "--state", "requested") == list(reversed(done))
    assert times("--action", "commit", "--since", done[0], "--until", done[2]) == [done[2], done[1]]
    assert times("--since", "2999-01-01") == []
    assert times("--active-only") == times()


def test_statistics_count_live_files_and_the_records_written_for_each_that_changed(
    cli: Cli, table: chronolake.Table
) -> None:
    publish(table, 0)
    publish(table, 0)
    publish(table, 1)

    shown = cli("stats", table.name, "--json").json
    [sizes] = shown["file_sizes"]
    written = shown["write_amplification"]

    live = [slice_.base_file for slice_ in table.snapshot().slices]
    assert (sizes["kind"], sizes["files"]) == ("base", 2)
    assert sizes["total_bytes"] == sum(file.size_bytes for file in live if file is not None)
    assert shown["total"] == sum(of["records"] for of in written) / sum(of["changed"] for of in written)
    assert f"write amplification of these 3: {shown['total']:.2f}" in cli("stats", table.name).out


def test_a_file_group_is_found_by_the_name_of_a_file_whose_parts_are_shown_too(
    cli: Cli, table: chronolake.Table
) -> None:
    publish(table)
    file = table.snapshot().slices[0].base_file
    assert file is not None
    name = file.path.rpartition("/")[2]

    assert cli("file-name", file.path, "--json").json["file_id"] == table.snapshot().slices[0].file_id
    assert cli("file-group", table.name, name, "--json").json["slices"][0]["base_file"]["path"] == file.path
    refused = cli("file-name", "orders.parquet")
    assert (refused.code, "is neither" in refused.err) == (2, True)
    refused = cli("file-name", "00000000-0000-0000-0000-000000000000-0_0-0-0_99999999999999999.parquet")
    assert (refused.code, "no month 99" in refused.err) == (2, True)


def test_the_timeline_for_people_never_breaks_a_time(cli: Cli, table: chronolake.Table) -> None:
    instant = publish(table)

    shown = cli("timeline", table.name).out

    assert instant.requested_time in shown
    assert str(instant.completion_time) in shown
    assert output.utc(instant.requested_time) in shown
    assert "completed" in shown


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_the_timeline_fits_a_narrow_screen(
    cli: Cli, table: chronolake.Table, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    instant = publish(table)
    monkeypatch.setenv("COLUMNS", str(columns))

    lines = cli("timeline", table.name).out.splitlines()

    assert max(len(line) for line in lines) <= columns
    assert any(line.strip().startswith(instant.requested_time) for line in lines)
    assert all(word in lines[1] for word in ("requested", "completed", "action", "state", "writer", "files"))
    assert any(str(instant.completion_time) in line for line in lines)


@pytest.mark.parametrize(
    ("command", "left_out"), [("tables list --namespace", "created"), ("events", "version")]
)
def test_lists_fit_a_narrow_screen(
    cli: Cli, table: chronolake.Table, monkeypatch: pytest.MonkeyPatch, command: str, left_out: str
) -> None:
    publish(table)
    name = table.name.partition(".")[0] if command.startswith("tables") else table.name
    assert left_out in cli(*command.split(), name).out.splitlines()[1]
    monkeypatch.setenv("COLUMNS", "80")

    lines = cli(*command.split(), name).out.splitlines()

    assert left_out not in lines[1]
    assert max(len(line) for line in lines[:-1]) <= 80


def test_the_events_of_a_table_are_shown_page_by_page(cli: Cli, table: chronolake.Table) -> None:
    instant = publish(table)

    first = cli("events", table.name, "--limit", "2", "--json").json
    second = cli("events", table.name, "--after", first["cursor"], "--json").json
    shown = cli("events", table.name, "--limit", "2").out

    assert [event["type"] for event in first["events"]] == ["TableCreated", "InstantRequested"]
    assert [event["type"] for event in second["events"]] == ["InstantCompleted"]
    assert (first["caught_up"], second["caught_up"]) == (False, True)
    assert instant.requested_time in shown
    assert f"There are more events; continue with --after {first['cursor']}" in shown
    assert cli("events", "--limit", "1", "--json").json["events"][0]["type"] == "NamespaceCreated"


def test_events_are_followed_as_lines(cli: Cli, table: chronolake.Table) -> None:
    instant = publish(table)

    lines = cli("events", table.name, "--follow", "--limit", "3", "--json").out.splitlines()
    shown = cli("events", table.name, "--follow", "--limit", "3").out.splitlines()

    assert [json.loads(line)["version"] for line in lines] == [1, 2, 3]
    assert len(shown) == 3
    assert instant.requested_time in shown[2]
    assert table.name in shown[2]


def test_a_follower_may_interrupt(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("chronolake.Client.follow", interrupted)

    ran = cli("events", "--follow")

    assert (ran.code, ran.out, ran.err) == (130, "", "")


def test_a_cursor_of_no_page_is_refused(cli: Cli) -> None:
    ran = cli("events", "--after", "nonsense")

    assert ran.code == output.FAILED
    assert "invalid-cursor" in ran.err


def test_an_instant_is_shown(cli: Cli, table: chronolake.Table) -> None:
    instant = publish(table)

    document = cli("instant", table.name, instant.requested_time, "--json").json
    shown = cli("instant", table.name, instant.requested_time).out

    assert document["completion_time"] == instant.completion_time
    assert output.utc(instant.completion_time) in shown
    assert instant.writer in shown
    assert cli("instant", table.name, "20200101000000000").code == output.NOT_FOUND


def test_a_pending_instant_is_rolled_back_by_its_writer_only(cli: Cli, table: chronolake.Table) -> None:
    pending = table.begin(writer="job", lease_seconds=600).requested_time

    too_early = cli("rollback", table.name, pending, "--reason", "stuck")
    done = cli("rollback", table.name, pending, "--writer", "job", "--reason", "stuck", "--json").json

    assert too_early.code == output.CONFLICT
    assert "lease-live" in too_early.err
    assert (done["state"], done["rollback_reason"]) == ("rolled_back", "stuck")


def test_the_timeline_shows_the_remaining_time_of_leases(
    cli: Cli, table: chronolake.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(table)
    assert "lease" not in cli("timeline", table.name).out

    pending = table.begin(lease_seconds=6_000).requested_time
    monkeypatch.setenv("COLUMNS", "85")
    [line] = [row for row in cli("timeline", table.name).out.splitlines() if pending in row]

    assert "s left" in line


@pytest.mark.parametrize("columns", [1, 10, 17, 30, 60])
def test_no_screen_is_so_narrow_that_a_time_is_cut(
    cli: Cli, table: chronolake.Table, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    instant = publish(table)
    monkeypatch.setenv("COLUMNS", str(columns))

    assert instant.requested_time in cli("timeline", table.name).out
    assert instant.requested_time in cli("snapshot", table.name).out
    assert str(instant.completion_time) in cli("changes", table.name).out
    assert instant.requested_time in cli("events", table.name).out
    assert instant.requested_time in cli("instant", table.name, instant.requested_time).out


def test_a_snapshot_is_of_now_or_of_then(cli: Cli, table: chronolake.Table) -> None:
    nothing = cli("snapshot", table.name)
    first = publish(table, 0)
    publish(table, 1)

    now = cli("snapshot", table.name, "--json").json
    then = cli("snapshot", table.name, "--as-of", str(first.completion_time), "--json").json
    shown = cli("snapshot", table.name)

    assert "nothing has completed" in nothing.out
    assert len(now["slices"]) == 2
    assert len(then["slices"]) == 1
    assert then["as_of"] == first.completion_time
    assert "2 file slices, 200 bytes, 6 records" in shown.out


def test_changes_are_those_of_the_range(cli: Cli, table: chronolake.Table) -> None:
    first, second = publish(table, 0), publish(table, 1)

    all_json = cli("changes", table.name, "--json").json
    range_ = ("--from", str(first.completion_time), "--to", str(second.completion_time))
    some = cli("changes", table.name, *range_, "--json").json
    shown = cli("changes", table.name)

    assert len(all_json["instants"]) == 2
    assert [instant["requested_time"] for instant in some["instants"]] == [second.requested_time]
    assert some["from"] == first.completion_time
    assert second.requested_time in shown.out


def test_the_time_is_shown_in_digits_and_for_people(cli: Cli) -> None:
    interval = cli("time", "--json").json
    shown = cli("time")

    assert interval["earliest"] <= interval["latest"]
    assert "UTC" in shown.out
