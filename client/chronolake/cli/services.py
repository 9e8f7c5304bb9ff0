"""``chronolake services``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import typer
from rich.console import Console

from chronolake.cli import context, options, output
from chronolake_model.services import HeldService, PendingService, PlannedService, ServiceRun, ServicesStatus

_PLANNED: Final = ("service", "groups#", "files#", "bytes#", "files after#", "details~")
_HELD: Final = ("service", "held because", "why~")
_PENDING: Final = ("service", "plan", "groups#", "age", "executor~", "lease")
_RUNS: Final = ("service", "files#", "bytes#", "files after#", "bytes after#", "completed (UTC)~")
"""Lines of 80 columns; ``--json`` has all."""


def app() -> typer.Typer:
    """The commands of ``chronolake services``."""
    return options.group(
        "services",
        "Preview and follow compaction, log compaction, clustering and cleans.",
        ("preview", preview),
        ("status", status),
    )


def preview(table: options.TableArgument) -> None:
    """Show what would be planned for a table now, what would not, and why. Nothing changes."""
    with context.client() as client:
        services = client.table(table).services.preview()

    def render(console: Console) -> None:
        if services.plans:
            output.print_table(console, output.table_of(_PLANNED, _planned(services.plans)))
        else:
            console.print(f"{services.table}: nothing would be planned", markup=False)
        if services.held:
            output.print_table(console, output.table_of(_HELD, _held(services.held)))

    output.show(services, render)


def status(table: options.TableArgument) -> None:
    """Show the pending plans of a table with their executors, and what the last run of each service saved."""
    with context.client() as client:
        services = client.table(table).services.status()
    output.show(services, lambda console: print_status(console, services))


def print_status(console: Console, services: ServicesStatus) -> None:
    """Print the pending plans of a table, its last runs, and what went wrong."""
    if services.pending:
        output.print_table(console, output.table_of(_PENDING, _pending(services.pending)))
        unlisted = services.pending_count - len(services.pending)
        if unlisted:
            console.print(f"… and {output.count(unlisted, 'pending plan')} more")
    else:
        console.print(f"{services.table}: no plan is pending", markup=False)
    if services.last_runs:
        output.print_table(console, output.table_of(_RUNS, _runs(services.last_runs)))
    for plan in services.pending:
        if plan.last_executor is not None:
            console.print(_failure(plan), soft_wrap=True, markup=False)
    never_taken = [plan.age_seconds for plan in services.pending if not plan.executions]
    if never_taken:
        console.print(
            f"A plan has waited for {max(never_taken):.0f} s, and no executor takes it: run "
            "chronolake services run",
            soft_wrap=True,
        )
    for expired in services.expired:
        line = f"The {expired.service} {expired.requested_time} expired: {expired.reason}"
        console.print(line, soft_wrap=True, markup=False)
    if services.cancelled_clusterings:
        cancelled = output.count(services.cancelled_clusterings, "clustering")
        console.print(f"{cancelled} cancelled since the last completed one, by writes to their file groups")


def _planned(plans: Iterable[PlannedService]) -> Iterator[tuple[object, ...]]:
    for plan in plans:
        yield (
            plan.service,
            plan.file_groups,
            plan.files_before,
            plan.size_bytes,
            plan.files_after,
            plan.details,
        )


def _held(held: Iterable[HeldService]) -> Iterator[tuple[object, ...]]:
    for entry in held:
        example = entry.example
        shown = "" if example is None else f"{example.partition_path}/{example.file_id}".removeprefix("/")
        why = f"{entry.message}, such as {shown}" if shown else entry.message
        yield entry.service, entry.reason, why


def _failure(plan: PendingService) -> str:
    seconds = f"{plan.failed_seconds_ago or 0:.0f} s ago"
    reason = f": {plan.last_failure}" if plan.last_failure else ""
    return (
        f"The {plan.service} {plan.requested_time} was taken {output.count(plan.executions, 'time')}; "
        f"{plan.last_executor} gave it up {seconds}{reason}"
    )


def _pending(plans: Iterable[PendingService]) -> Iterator[tuple[object, ...]]:
    for plan in plans:
        lease = None if plan.lease_seconds_left is None else f"{plan.lease_seconds_left:.0f} s left"
        age = f"{plan.age_seconds:.0f} s"
        yield plan.service, plan.requested_time, plan.file_groups, age, plan.executor, lease


def _runs(runs: Iterable[ServiceRun]) -> Iterator[tuple[object, ...]]:
    for run in runs:
        yield (
            run.service,
            run.files_before,
            run.bytes_before,
            run.files_after,
            run.bytes_after,
            output.utc(run.completion_time),
        )
