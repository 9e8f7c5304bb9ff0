"""``chronolake instant``, ``rollback``, ``finish-rollbacks``, ``conflicts`` and ``markers``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from chronolake.cli import context, options, output
from chronolake_model.files import FileGroupName
from chronolake_model.instants import ConflictingInstant, Instant, RecordedPlan, TouchedFileGroup
from chronolake_model.markers import Marker
from chronolake_model.vocabulary import Touch

_NAMED_MAX = 10
"""The entries of a long list that are printed; --json has all of them."""


def _touched_option(name: str, what: str) -> Any:
    return typer.Option(f"--{name}", metavar="[PARTITION/]FILE_ID", help=f"{what}; may be repeated.")


def instant(table: options.TableArgument, requested_time: options.TimeArgument) -> None:
    """Show one instant: its writer, state, lease, plan and summary."""
    with context.client() as client:
        instant = client.table(table).instant(requested_time)
    output.show(instant, lambda console: print_instant(console, instant))


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
        rolled_back = client.table(table).rollback(requested_time, reason, writer=writer, execute=execute)
    output.show(rolled_back, lambda console: print_instant(console, rolled_back))


def finish_rollbacks(
    table: options.TableArgument,
    writer: options.WriterOption = None,
    storage: options.StorageOption = None,
) -> None:
    """Execute pending rollbacks: delete the files that the rolled-back instants have marked."""
    with context.client(storage_options=options.storage(storage)) as client:
        lake_table = client.table(table)
        rollbacks = lake_table.finish_rollbacks(writer=writer)
        counts = [sum(1 for _ in lake_table.deletions(rollback.requested_time)) for rollback in rollbacks]
        leased = list(lake_table.timeline.rollbacks().pending())
    output.show(
        {"table": table, "rollbacks": rollbacks},
        lambda console: _print_rollbacks(console, rollbacks, counts, leased),
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
        conflict = client.table(table).write(requested_time).conflicts(touched)
    document = {"table": table, "requested_time": requested_time, "conflict": conflict}
    output.show(document, lambda console: _print_conflict(console, conflict))
    if conflict is not None:
        raise typer.Exit(output.CONFLICT)


def markers(
    table: options.TableArgument,
    requested_time: options.TimeArgument,
    unpublished: Annotated[
        bool,
        typer.Option(
            "--unpublished",
            help="Only markers of files that the instant has not published. Failed or repeated attempts of "
            "tasks may have left them.",
        ),
    ] = False,
) -> None:
    """List the markers of an instant, by path: the data files that it may have written."""
    with context.client() as client:
        listed = list(client.table(table).markers(requested_time, unpublished=unpublished))
    document = {"table": table, "requested_time": requested_time, "markers": listed}
    output.show(document, lambda console: _print_markers(console, listed))


def _print_rollbacks(
    console: Console, rollbacks: Sequence[Instant], counts: Sequence[int], leased: Sequence[Instant]
) -> None:
    """``leased`` are the pending rollbacks that another writer or a server executes."""
    if rollbacks:
        rows = (
            (rollback.requested_time, rollback.target, count)
            for rollback, count in zip(rollbacks, counts, strict=True)
        )
        output.print_table(console, output.table_of(("rollback", "undid", "files deleted#"), rows))
    else:
        console.print("no pending rollback can be executed now")
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


def _print_conflict(console: Console, conflict: ConflictingInstant | None) -> None:
    if conflict is None:
        console.print("no conflict now")
        return
    rebase_on = "-, it is pending" if conflict.rebase_on is None else _time(conflict.rebase_on)
    pairs = (
        ("would lose to", _time(conflict.winner)),
        ("action", conflict.winner_action),
        ("state", conflict.winner_state),
        ("rebase on", rebase_on),
        (
            "file groups",
            _some([group_name(group) for group in conflict.file_groups], conflict.file_groups_in_common),
        ),
    )
    output.print_table(console, output.pairs_of(pairs))


def group_name(group: FileGroupName) -> str:
    """The name of a file group on the command line."""
    return f"{group.partition_path}/{group.file_id}" if group.partition_path else group.file_id


def print_instant(console: Console, instant: Instant) -> None:
    """Print one instant."""
    pairs: list[tuple[str, object]] = [
        ("table", instant.table),
        ("requested", _time(instant.requested_time)),
        ("completed", _time(instant.completion_time)),
        ("duration", output.seconds_between(instant.requested_time, instant.completion_time)),
        ("state", instant.state),
        ("action", instant.action),
        ("operation", instant.operation),
        ("writer", instant.writer),
        ("lease", f"{instant.lease_seconds:,} s"),
        ("lease ends", _lease_end(instant)),
        ("target", _time(instant.target)),
        ("rolled back by", _time(instant.rolled_back_by)),
        ("reason", instant.rollback_reason),
        ("metadata", instant.extra_metadata),
        ("schema version", instant.schema_version),
        ("version", instant.version),
    ]
    if (summary := instant.summary) is not None:
        pairs += [(name.replace("_", " "), getattr(summary, name)) for name in summary.__struct_fields__]
    if (plan := instant.plan) is not None:
        pairs += [
            ("plan: groups", _some([group_name(group) for group in plan.file_groups], plan.file_groups_count)),
            ("plan: details", plan.details),
            ("plan: instants", _some(plan.instants, plan.instants_count)),
            ("plan: delete", _files_to_delete(plan)),
        ]
    output.print_table(console, output.pairs_of(pairs))


def _files_to_delete(plan: RecordedPlan) -> list[str]:
    if plan.by_markers:
        return ["the files that the target has marked"]
    return _some(plan.files_to_delete, plan.files_to_delete_count)


def _lease_end(instant: Instant) -> str | None:
    return None if instant.lease_expires_at is None else f"{instant.lease_expires_at:%Y-%m-%d %H:%M:%S} UTC"


def _some(names: Sequence[str], count: int | None = None) -> list[str]:
    """The first few of a list that may be long, and how many are omitted."""
    omitted = (len(names) if count is None else count) - _NAMED_MAX
    return [*names[:_NAMED_MAX], *([f"… and {omitted:,} more"] if omitted > 0 else [])]


def _time(time: str | None) -> str:
    return "-" if time is None else f"{time}  {output.utc(time)} UTC"


def _print_markers(console: Console, markers: list[Marker]) -> None:
    rows = ((marker.path, marker.kind) for marker in markers)
    output.print_table(console, output.table_of(("data file~", "kind"), rows))
