"""``chronolake instant``, ``chronolake rollback`` and ``chronolake conflicts``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from chronolake.cli import context, options, output
from chronolake_model.files import FileGroupName
from chronolake_model.instants import Conflict, Instant, RecordedPlan, TouchedFileGroup
from chronolake_model.vocabulary import Touch

_NAMED_MAX = 10
"""Of a long list so many are shown; all of them with --json."""


def _touched_option(name: str, what: str) -> Any:
    return typer.Option(f"--{name}", metavar="[PARTITION/]FILE_ID", help=f"{what}; may be repeated.")


def instant(table: options.TableArgument, requested_time: options.TimeArgument) -> None:
    """Show one instant: its writer, state, lease, plan and summary."""
    with context.client() as client:
        found = client.table(table).instant(requested_time)
    output.show(found, lambda console: print_instant(console, found))


def rollback(
    table: options.TableArgument,
    requested_time: options.TimeArgument,
    writer: Annotated[
        str | None,
        typer.Option(
            "--writer",
            metavar="NAME",
            help="The writer's name. The default is user@host:pid. The instant's own writer may roll it back "
            "at any time, another writer when the lease has ended.",
            show_default=False,
        ),
    ] = None,
    reason: options.ReasonOption = "",
    execute: Annotated[
        bool | None,
        typer.Option(
            "--execute/--no-execute",
            help="Delete the files that the instant has marked, or leave that to finish-rollbacks or a server. "
            "The default is the table's property deletions.executor.",
            show_default=False,
        ),
    ] = None,
    storage: options.StorageOption = None,
) -> None:
    """Roll back a pending instant: its files are never published, and the marked ones are deleted."""
    with context.client(storage_options=options.storage(storage)) as client:
        found = client.table(table).rollback(requested_time, reason, writer=writer, execute=execute)
    output.show(found, lambda console: print_instant(console, found))


def finish_rollbacks(
    table: options.TableArgument,
    writer: options.WriterOption = None,
    storage: options.StorageOption = None,
) -> None:
    """Execute pending rollbacks: delete the files that the rolled-back instants have marked."""
    with context.client(storage_options=options.storage(storage)) as client:
        lake_table = client.table(table)
        done = lake_table.finish_rollbacks(writer=writer)
        counts = [sum(1 for _ in lake_table.deletions(one.requested_time)) for one in done]
        leased = list(lake_table.timeline.rollbacks().pending())
    output.show(
        {"table": table, "rollbacks": done}, lambda console: _print_rollbacks(console, done, counts, leased)
    )


def conflicts(
    table: options.TableArgument,
    requested_time: options.TimeArgument,
    base: Annotated[list[str] | None, _touched_option("base", "It writes a base file of this group")] = None,
    log: Annotated[list[str] | None, _touched_option("log", "It adds a log file to this group")] = None,
    replaced: Annotated[list[str] | None, _touched_option("replaced", "It replaces this group")] = None,
) -> None:
    """Show whether an instant that writes these file groups would conflict if it completed now.

    It changes nothing. The exit code is 5 if there is a conflict.
    """
    touched = [
        _touched(text, how)
        for texts, how in ((base, Touch.BASE), (log, Touch.LOG), (replaced, Touch.REPLACED))
        for text in texts or ()
    ]
    if not touched:
        raise typer.BadParameter("name at least one file group", param_hint="--base, --log or --replaced")
    with context.client() as client:
        found = client.table(table).write(requested_time).conflicts(touched)
    document = {"table": table, "requested_time": requested_time, "conflict": found}
    output.show(document, lambda console: _print_conflict(console, found))
    if found is not None:
        raise typer.Exit(output.CONFLICT)


def _print_rollbacks(
    console: Console, done: Sequence[Instant], counts: Sequence[int], leased: Sequence[Instant]
) -> None:
    """``leased`` are the pending rollbacks that another writer or a server executes."""
    if done:
        rows = ((one.requested_time, one.target, count) for one, count in zip(done, counts, strict=True))
        output.print_table(console, output.table_of(("rollback", "undid", "files deleted#"), rows))
    else:
        console.print("no rollback waits to be executed")
    for rollback_ in leased:
        console.print(
            f"{rollback_.requested_time} is executed by {rollback_.writer}, whose lease ends at "
            f"{_lease_end(rollback_)}; run this again after that",
            soft_wrap=True,
            markup=False,
        )


def _touched(text: str, how: Touch) -> TouchedFileGroup:
    partition_path, _, file_id = text.rpartition("/")
    if not file_id:
        raise typer.BadParameter(
            f"a file group is PARTITION/FILE_ID or FILE_ID, not {text!r}", param_hint=f"--{how}"
        )
    return TouchedFileGroup(partition_path, file_id, how)


def _print_conflict(console: Console, found: Conflict | None) -> None:
    if found is None:
        console.print("no conflict, as things stand")
        return
    rebase_on = "-, it is pending" if found.rebase_on is None else _time(found.rebase_on)
    pairs = (
        ("would lose to", _time(found.winner)),
        ("action", found.winner_action),
        ("state", found.winner_state),
        ("rebase on", rebase_on),
        ("file groups", _some([group_name(one) for one in found.file_groups], found.file_groups_in_common)),
    )
    output.print_table(console, output.pairs_of(pairs))


def group_name(group: FileGroupName) -> str:
    """A file group as the command line reads and shows it."""
    return f"{group.partition_path}/{group.file_id}" if group.partition_path else group.file_id


def print_instant(console: Console, found: Instant) -> None:
    """One instant for people."""
    pairs: list[tuple[str, object]] = [
        ("table", found.table),
        ("requested", _time(found.requested_time)),
        ("completed", _time(found.completion_time)),
        ("duration", output.seconds_between(found.requested_time, found.completion_time)),
        ("state", found.state),
        ("action", found.action),
        ("operation", found.operation),
        ("writer", found.writer),
        ("lease", f"{found.lease_seconds:,} s"),
        ("lease ends", _lease_end(found)),
        ("target", _time(found.target)),
        ("rolled back by", _time(found.rolled_back_by)),
        ("reason", found.rollback_reason),
        ("metadata", found.extra_metadata),
        ("schema version", found.schema_version),
        ("version", found.version),
    ]
    if (summary := found.summary) is not None:
        pairs += [(name.replace("_", " "), getattr(summary, name)) for name in summary.__struct_fields__]
    if (plan := found.plan) is not None:
        pairs += [
            ("plan: groups", _some([group_name(one) for one in plan.file_groups], plan.file_groups_count)),
            ("plan: details", plan.details),
            ("plan: instants", _some(plan.instants, plan.instants_count)),
            ("plan: delete", _files_to_delete(plan)),
        ]
    output.print_table(console, output.pairs_of(pairs))


def _files_to_delete(plan: RecordedPlan) -> list[str]:
    if plan.by_markers:
        return ["the files that the target has marked"]
    return _some(plan.files_to_delete, plan.files_to_delete_count)


def _lease_end(found: Instant) -> str | None:
    return None if found.lease_expires_at is None else f"{found.lease_expires_at:%Y-%m-%d %H:%M:%S} UTC"


def _some(names: Sequence[str], count: int | None = None) -> list[str]:
    """The first few of a list that may be long, and how many there are more."""
    more = (len(names) if count is None else count) - _NAMED_MAX
    return [*names[:_NAMED_MAX], *([f"… and {more:,} more"] if more > 0 else [])]


def _time(time: str | None) -> str:
    return "-" if time is None else f"{time}  {output.utc(time)} UTC"
