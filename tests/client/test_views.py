"""File groups and partitions in the client and the command line, against a real server."""

from __future__ import annotations

import chronolake
from chronolake import Action, View
from chronolake.cli import output
from chronolake_model.file_names import bucket_file_id
from tests.client.conftest import Cli
from tests.client.test_actions import append, group, next_group
from tests.client.test_writes import publish

FIRST = bucket_file_id(1)


def replace_first(table: chronolake.Table) -> chronolake.Instant:
    """Put another group in the place of the first of bucket 1."""
    with table.begin(action=Action.REPLACECOMMIT) as write:
        write.add(next_group(write, 1))
        write.replace(group(1))
    return write.instant


def test_a_view_selects_the_slices(clicks: chronolake.Table) -> None:
    first = append(clicks, 1)
    planned = clicks.plan(Action.COMPACTION, [group(1)])
    second = append(clicks, 1)

    [merged] = clicks.snapshot().slices
    [latest] = clicks.snapshot(view=View.LATEST).slices
    [before] = clicks.snapshot(view=View.LATEST, before_or_on=first.requested_time).slices

    assert len(merged.log_files) == 2
    assert latest.base_instant_time == planned.requested_time
    assert [log.requested_time for log in latest.log_files] == [second.requested_time]
    assert [log.requested_time for log in before.log_files] == [first.requested_time]
    assert clicks.snapshot(view=View.READ_OPTIMISED).slices == []
    [pending] = clicks.pending_file_groups().file_groups
    assert (pending.requested_time, pending.action) == (planned.requested_time, Action.COMPACTION)
    assert clicks.pending_file_groups(first.completion_time).file_groups == []


def test_a_file_group_has_its_history_and_partitions_their_totals(table: chronolake.Table) -> None:
    first, second = publish(table, 1), publish(table, 1)
    done = replace_first(table)

    history = table.file_group(FIRST)
    [gone] = table.replaced_file_groups().file_groups

    assert [file_slice.base_instant_time for file_slice in history.slices] == [
        first.requested_time,
        second.requested_time,
    ]
    assert [file_slice.superseded_at for file_slice in history.slices] == [
        second.completion_time,
        done.completion_time,
    ]
    assert gone.replaced == history.replaced
    assert gone.replaced.requested_time == done.requested_time
    assert len(table.file_group(FIRST, as_of=first.completion_time).slices) == 1
    assert table.replaced_file_groups(second.completion_time).file_groups == []
    assert table.partitions(first.completion_time).partitions == table.partitions().partitions
    assert table.partitions().partitions == [chronolake.Partition("", 1, 1, 100, 3)]


def test_files_are_listed_one_a_line(cli: Cli, clicks: chronolake.Table) -> None:
    nothing = cli("files", clicks.name)
    first = append(clicks, 1)
    clicks.plan(Action.COMPACTION, [group(1)])

    document = cli("files", clicks.name, "--json").json
    shown = cli("files", clicks.name)
    latest = cli("files", clicks.name, "--view", "latest")
    then = cli("files", clicks.name, "--as-of", first.requested_time)

    assert "nothing has completed" in nothing.out
    assert f"nothing had completed as of {first.requested_time}" in then.out
    [log] = document["slices"][0]["log_files"]
    assert log["path"] in shown.out
    assert "1 file of 1 file slice" in shown.out
    assert f"({FIRST}: no files yet)" in latest.out
    assert cli("files", clicks.name, "--view", "newest").code == output.USAGE


def test_partitions_are_listed_with_their_totals(cli: Cli, table: chronolake.Table) -> None:
    nothing = cli("partitions", table.name)
    publish(table, 1)

    document = cli("partitions", table.name, "--json").json
    shown = cli("partitions", table.name)

    assert "nothing has completed" in nothing.out
    assert [partition["records"] for partition in document["partitions"]] == [3]
    assert "1 partition\n" in shown.out


def test_a_file_group_is_shown_with_its_history(cli: Cli, table: chronolake.Table) -> None:
    first = publish(table, 1)
    done = replace_first(table)

    document = cli("file-group", table.name, FIRST, "--json").json
    shown = cli("file-group", table.name, FIRST)
    other = cli("file-group", table.name, FIRST, "--partition", "name=1")

    assert [file_slice["base_instant_time"] for file_slice in document["slices"]] == [first.requested_time]
    assert f"replaced by {done.requested_time}" in shown.out
    assert f"there is no file group name=1/{FIRST}" in other.out
