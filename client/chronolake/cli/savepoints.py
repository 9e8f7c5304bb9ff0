"""``chronolake savepoint`` and ``chronolake restore``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from chronolake import Table
from chronolake.cli import context, instants, options, output, terminal
from chronolake_model.instants import Instant
from chronolake_model.vocabulary import Action, State

_WRITES = (
    *(Action.CLUSTERING, Action.COMPACTION, Action.LOGCOMPACTION),
    *(Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT),
)
"""The actions of instants that a restore rolls back."""


def app() -> typer.Typer:
    """The commands of ``chronolake savepoint``."""
    return options.group(
        "savepoint",
        "Create, list and release savepoints.",
        ("create", create_savepoint),
        ("list", list_savepoints),
        ("release", release_savepoint),
    )


def create_savepoint(
    table: options.TableArgument,
    instant: Annotated[
        str | None,
        typer.Option(
            "--instant",
            metavar="TIME",
            callback=options.optional_instant_time,
            help="The requested time of the instant to pin. The default is the last one that completed.",
        ),
    ] = None,
    comment: Annotated[
        str, typer.Option("--comment", help="A comment, such as the purpose of the savepoint.")
    ] = "",
    writer: options.WriterOption = None,
) -> None:
    """Pin a completed instant, so that the table can be restored to it.

    If the instant is pinned already, its savepoint stays as it is.
    """
    with context.client() as client:
        made = client.table(table).savepoint(instant, comment, writer=writer)
    output.show(made, lambda console: instants.print_instant(console, made))


def list_savepoints(table: options.TableArgument) -> None:
    """List the savepoints of a table that are not released, oldest first."""
    with context.client() as client:
        savepoints = list(client.table(table).timeline.savepoints())
    columns = ("savepoint", "made (UTC)", "instant", "writer~", "comment~")
    rows = (
        (
            savepoint.requested_time,
            output.utc(savepoint.completion_time),
            savepoint.target,
            savepoint.writer,
            _comment(savepoint),
        )
        for savepoint in savepoints
    )
    output.show(
        {"savepoints": savepoints}, lambda console: output.print_table(console, output.table_of(columns, rows))
    )


def release_savepoint(
    table: options.TableArgument,
    savepoint: options.SavepointArgument,
    reason: options.ReasonOption = "",
    writer: options.WriterOption = None,
) -> None:
    """Release a savepoint: its instant may be rolled back and cleaned again."""
    with context.client() as client:
        released = client.table(table).release_savepoint(savepoint, reason, writer=writer)
    output.show(released, lambda console: instants.print_instant(console, released))


def restore(
    table: options.TableArgument,
    savepoint: options.SavepointArgument,
    reason: options.ReasonOption = "",
    writer: options.WriterOption = None,
    yes: options.YesOption = False,
) -> None:
    """Restore a table to a savepoint: roll back pending instants, and those that completed after it.

    It lists these instants and asks first. Instants that begin or complete before your answer are rolled back
    too. The output has the restore with all instants that it rolled back.
    """
    with context.client() as client:
        lake_table = client.table(table)
        instant = lake_table.instant(savepoint)
        # Without a savepoint there is nothing to list, and the server refuses the restore.
        if not yes and instant.action is Action.SAVEPOINT and instant.state is State.COMPLETED:
            _ask(lake_table, instant)
        restored = lake_table.restore(savepoint, reason, writer=writer)
    output.show(restored, lambda console: instants.print_instant(console, restored))


def _ask(table: Table, savepoint: Instant) -> None:
    assert savepoint.target is not None, "a savepoint pins an instant"
    pinned = table.instant(savepoint.target)
    assert pinned.completion_time is not None, "a pinned instant has completed"
    writes = table.timeline.where(action=_WRITES)
    later = writes.completed().by_completion_time().after(pinned.completion_time).reverse()
    instants = [*writes.pending().reverse(), *later]
    # The list goes to stderr, because stdout has only the JSON document.
    columns = ("requested", "completed", "action", "operation", "state", "writer~")
    rows = (
        (
            instant.requested_time,
            instant.completion_time,
            instant.action,
            instant.operation,
            instant.state,
            instant.writer,
        )
        for instant in instants
    )
    output.print_table(terminal.console(sys.stderr), output.table_of(columns, rows))
    options.confirm(
        f"Restore {table.name} to {savepoint.target}, and roll back {output.count(len(instants), 'instant')}?",
        yes=False,
    )


def _comment(savepoint: Instant) -> str | None:
    return savepoint.extra_metadata.get("comment")
