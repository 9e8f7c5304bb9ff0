"""Cleaned history and the words for its ends, in the client and at the command line, against a real server."""

from __future__ import annotations

import pickle

import pytest

import chronolake
from chronolake import Action, errors
from chronolake.cli import output
from tests.client.conftest import Cli
from tests.client.test_writes import publish


def clean(table: chronolake.Table, before: str | None) -> None:
    """Clean the history before a completion time."""
    assert before is not None
    with table.begin(action=Action.CLEAN) as write:
        write.clean_before(before)


def test_a_read_of_cleaned_history_names_the_earliest_served_time(table: chronolake.Table) -> None:
    first, second = publish(table, 1), publish(table, 1)
    clean(table, second.completion_time)

    with pytest.raises(errors.HistoryCleaned) as refused:
        table.snapshot(first.completion_time)

    assert pickle.loads(pickle.dumps(refused.value)).context == refused.value.context
    assert refused.value.context["first_servable_time"] == second.completion_time
    assert table.snapshot("earliest") == table.snapshot(second.completion_time)
    assert table.snapshot("latest") == table.snapshot()
    assert table.reload().definition.cleaned_before == second.completion_time


def test_the_words_are_taken_wherever_a_completion_time_is(table: chronolake.Table) -> None:
    first, second = publish(table, 1), publish(table, 1)
    clean(table, first.completion_time)

    assert table.changes("earliest", "latest") == table.changes(first.completion_time)
    assert table.changes("latest").instants == []
    assert table.changes_arrow("earliest").num_rows == 2
    assert table.partitions("earliest") == table.partitions(first.completion_time)
    assert table.scan(chronolake.col("id") > 0, "earliest") == table.snapshot(first.completion_time)
    assert table.snapshot("latest").as_of is not None
    with pytest.raises(ValueError, match="earliest or latest"):
        table.changes("first")
    assert [instant.requested_time for instant in table.changes("earliest").instants] == [second.requested_time]


def test_several_that_complete_together_may_clean(client: chronolake.Client, table: chronolake.Table) -> None:
    published = publish(table, 1)
    assert published.completion_time is not None
    write = table.begin(action=Action.CLEAN)
    write.clean_before(published.completion_time)

    client.complete_together([write])

    assert table.reload().definition.cleaned_before == published.completion_time


def test_the_command_line_takes_the_words(cli: Cli, table: chronolake.Table) -> None:
    first, second = publish(table, 1), publish(table, 1)
    clean(table, second.completion_time)

    assert cli("snapshot", table.name, "--as-of", "earliest", "--json").json["as_of"] == second.completion_time
    assert cli("files", table.name, "--as-of", "latest").code == 0
    changes = cli("changes", table.name, "--from", "earliest", "--to", "latest", "--json").json
    assert changes["from"] == second.completion_time
    refused = cli("snapshot", table.name, "--as-of", str(first.completion_time))
    assert (refused.code, str(second.completion_time) in refused.err) == (output.CONFLICT, True)
    wrong = cli("changes", table.name, "--from", "first")
    assert (wrong.code, "earliest" in wrong.err) == (output.USAGE, True)
