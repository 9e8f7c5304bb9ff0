"""The command line for the timeline's words, savepoints, restore and the dry run of a conflict."""

from __future__ import annotations

import io

import pytest

import chronolake
from chronolake import Action, Marker, MarkerKind, Operation
from chronolake.cli import output
from chronolake_model.file_names import bucket_file_id
from tests.client.conftest import Cli
from tests.client.test_actions import group
from tests.client.test_writes import publish, stat_of


def test_the_timeline_is_read_in_hudis_words(cli: Cli, table: chronolake.Table) -> None:
    slow = table.begin(writer="slow")
    done = [publish(table, bucket) for bucket in range(3)]
    deleting = table.begin(operation=Operation.DELETE)
    late = slow.complete([stat_of(slow, 3)])
    table.rollback(deleting.requested_time)
    pending = table.begin()

    def times(*args: str) -> list[str]:
        return [
            instant["requested_time"]
            for instant in cli("timeline", table.name, "--json", *args).json["instants"]
        ]

    assert times("--pending") == [pending.requested_time]
    assert times("--operation", "delete") == [deleting.requested_time]
    assert times("--writer", "slow") == [late.requested_time]
    assert times("--rollbacks") == [table.instant(deleting.requested_time).rolled_back_by]
    assert times("--first") == [late.requested_time]
    assert times("--last") == [pending.requested_time]
    assert times("--nth", "2") == [done[1].requested_time]
    assert times("--nth", "99") == []
    writes = ("--action", "commit", "--by", "completion")
    assert times(*writes, "--last") == [late.requested_time]
    assert times(*writes, "--limit", "2") == [late.requested_time, done[2].requested_time]
    assert done[1].completion_time is not None
    assert times(*writes, "--completed-since", done[1].completion_time, "--reverse") == [
        done[2].requested_time,
        late.requested_time,
    ]
    assert times("--completed-until", done[1].completion_time) == [
        instant.requested_time for instant in (done[1], done[0])
    ]


def test_a_rollback_shows_its_target(cli: Cli, table: chronolake.Table) -> None:
    pending = table.begin()
    rollback = table.rollback(pending.requested_time).rolled_back_by

    assert pending.requested_time in cli("timeline", table.name, "--rollbacks").out
    assert str(rollback) in cli("instant", table.name, pending.requested_time).out


def test_finish_rollbacks_names_a_rollback_that_another_writer_executes(
    cli: Cli, table: chronolake.Table
) -> None:
    pending = table.begin(writer="gone")
    pending.mark(Marker("", stat_of(pending, 1).file_name, MarkerKind.CREATE))
    rollback = table.rollback(pending.requested_time, writer="gone", execute=False).rolled_back_by
    assert rollback is not None
    table.execute(rollback, writer="another")

    shown = cli("finish-rollbacks", table.name).out

    assert f"{rollback} is executed by another, whose lease ends at " in shown
    assert "the files that the target has marked" in cli("instant", table.name, rollback).out


def test_an_instant_shows_its_plan(cli: Cli, table: chronolake.Table) -> None:
    publish(table, 1)
    planned = table.plan(Action.CLUSTERING, [group(1)], {"sort": "id"})

    shown = cli("instant", table.name, planned.requested_time).out

    assert bucket_file_id(1) in shown
    assert "sort=id" in shown


def test_a_savepoint_is_made_listed_and_released(cli: Cli, table: chronolake.Table) -> None:
    first, _ = publish(table, 1), publish(table, 1)

    made = cli(
        *("savepoint", "create", table.name, "--instant", first.requested_time),
        *("--comment", "good", "--writer", "me", "--json"),
    ).json
    listed = cli("savepoint", "list", table.name, "--json").json
    shown = cli("savepoint", "list", table.name).out
    released = cli(
        "savepoint", "release", table.name, made["requested_time"], "--reason", "over", "--json"
    ).json

    assert (made["target"], made["writer"]) == (first.requested_time, "me")
    assert listed == {"savepoints": [made]}
    assert first.requested_time in shown
    assert "good" in shown
    assert (released["state"], released["rollback_reason"]) == ("rolled_back", "over")
    assert cli("savepoint", "list", table.name, "--json").json == {"savepoints": []}


@pytest.mark.parametrize(("answer", "code"), [("n\n", output.FAILED), ("y\n", output.OK)])
def test_a_restore_shows_the_instants_it_rolls_back_and_prompts(
    cli: Cli, table: chronolake.Table, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    slow = table.begin()
    publish(table, 1)
    savepoint = table.savepoint().requested_time
    late = slow.complete([stat_of(slow, 2)])
    bad, pending = publish(table, 1), table.begin()
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))

    ran = cli("restore", table.name, savepoint, "--reason", "bad load")

    assert ran.code == code
    undone = [instant.requested_time for instant in (pending, bad, late)]
    places = [ran.err.index(time) for time in undone]
    assert places == sorted(places)
    assert "roll back 3 instants?" in ran.err
    assert (table.instant(bad.requested_time).state is chronolake.State.ROLLED_BACK) == (code == output.OK)


def test_with_yes_a_restore_does_not_prompt_and_prints_its_plan(cli: Cli, table: chronolake.Table) -> None:
    publish(table, 1)
    savepoint = table.savepoint().requested_time
    bad = publish(table, 1)

    document = cli("restore", table.name, savepoint, "--yes", "--json").json

    assert document["plan"]["instants"] == [bad.requested_time]
    assert cli("restore", table.name, bad.requested_time, "--yes").code == output.CONFLICT


def test_a_conflict_is_shown_and_sets_the_exit_code(cli: Cli, table: chronolake.Table) -> None:
    mine = table.begin().requested_time
    arguments = ("conflicts", table.name, mine, "--base", bucket_file_id(1))
    assert cli(*arguments, "--json").json["conflict"] is None

    winner = publish(table, 1)

    document, shown = cli(*arguments, "--json"), cli(*arguments)
    assert (document.code, shown.code) == (output.CONFLICT, output.CONFLICT)
    assert f'"winner": "{winner.requested_time}"' in document.out
    assert winner.requested_time in shown.out
    assert cli("conflicts", table.name, mine, "--base", f"day=1/{bucket_file_id(1)}").code == output.OK
