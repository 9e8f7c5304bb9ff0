"""The commands of the archive: write, drop, verify, status."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Annotated, Final

import msgspec
import typer

from chronolake_metastore import errors, object_storage
from chronolake_metastore.archive import dropping, pace as pace_, status, verification, writing
from chronolake_metastore.archive.pace import Pace
from chronolake_metastore.archive.status import ArchiveStatus, LogStatus
from chronolake_metastore.archive.storage import ArchiveDamaged, ArchiveStorage
from chronolake_metastore.archive.verification import ArchiveReport
from chronolake_metastore.cli import proving, repeating
from chronolake_metastore.cli.options import (
    ArchiveLocation,
    FindingsMax,
    OptionalArchive,
    ReportAsJson,
    existing,
    of_settings,
)
from chronolake_metastore.cli.proving import count
from chronolake_metastore.domain.event_holders import HeldEvents, HoldingCause
from chronolake_metastore.proof.replay import Progress, no_progress
from chronolake_metastore.proof.verification import FINDINGS_MAX
from chronolake_metastore.queries import readiness
from chronolake_metastore.settings import LogLevel, Settings
from chronolake_metastore.store.postgres import diagnosis
from chronolake_model.times import to_datetime

ROLE: Final = "chronolake_auditor"
"""The role that reads the log and nothing else."""
KEEP_DAYS: Final = 30
app = typer.Typer(
    no_args_is_help=True,
    help="Copy the log to object storage, verify the copy, and let old rows leave PostgreSQL.",
)
EVERY_SECONDS: Final = 3_600.0
_TAKE_IN_SECONDS: Final = 60.0
"""Within this time each server has read the keys of new runs of the archive."""
Fast = Annotated[
    bool,
    typer.Option(
        "--fast",
        help="Archive without rests and with ordinary priority. Otherwise it works half of the time, so "
        "that commands on the same processors wait less for it.",
    ),
]


@app.command()
@of_settings("role", log_level=LogLevel.WARNING, role=ROLE)
def write(
    settings: Settings,
    *,
    archive: ArchiveLocation,
    fast: Fast = False,
) -> None:
    """Copy the log to the archive, from where the last run of it ends, while servers write.

    Nothing leaves PostgreSQL. Each run is read back and verified before it counts. It may run again, and from
    several machines at once.
    """
    settings = existing(settings)
    typer.echo(_write(settings, ArchiveStorage(object_storage.open_location(archive)), _paced(fast=fast)))


@app.command(name="run")
@of_settings("role", log_level=LogLevel.WARNING, role=ROLE)
def run_(
    settings: Settings,
    *,
    archive: ArchiveLocation,
    every_seconds: Annotated[
        float, typer.Option(min=1, help="The seconds from one run of archive write to the next.")
    ] = EVERY_SECONDS,
    keep_days: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Drop what is older than this number of days, as archive drop. By default nothing leaves.",
        ),
    ] = None,
    fast: Fast = False,
) -> None:
    """Keep the archive up to date until stopped (Ctrl-C, SIGTERM): archive write, and archive drop when told.

    Each run prints a line. A failure prints one with the reason; the next try follows after 1 second, and after
    up to 5 minutes as long as failures go on. It may run on several machines at once. With --keep-days it needs
    the login that owns the schema.
    """
    settings = existing(settings)
    storage = ArchiveStorage(object_storage.open_location(archive))
    pace = _paced(fast=fast)
    steps = [repeating.Repeated("archive write", lambda: _write(settings, storage, pace))]
    if keep_days is not None:

        def drop_later(keep_days: int = keep_days) -> str:
            # Commands wait for a server that has not taken in what it needs of the archive.
            time.sleep(min(_TAKE_IN_SECONDS, every_seconds / 2))
            return "; ".join(_drop(settings, storage, keep_days, no_progress))

        steps.append(repeating.Repeated("archive drop", drop_later))
        with contextlib.suppress(errors.Unavailable):
            asyncio.run(diagnosis.refuse_unless_owner(settings))
    repeating.until_stopped(lambda: repeating.repeat(steps, every_seconds))


@app.command()
@of_settings(log_level=LogLevel.WARNING)
def drop(
    settings: Settings,
    *,
    archive: ArchiveLocation,
    keep_days: Annotated[
        int, typer.Option(min=0, help="The days for which PostgreSQL keeps all rows, at least.")
    ] = KEEP_DAYS,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole",
            help="Prove all runs of the archive by their rows, also those that an earlier archive drop proved.",
        ),
    ] = False,
) -> None:
    """Drop old rows of the log from PostgreSQL, after the archive proved that it has them.

    All answers (outcomes and refusals) leave, and the events that the state does not need any more.

    The log is stored in eras of a day or longer; eras leave one by one. Run it each day, after archive write,
    with the login that owns the schema. From then on servers read old rows from the archive.
    """
    settings = existing(settings)
    storage = ArchiveStorage(object_storage.open_location(archive))

    with proving.shown_progress() as progress:
        done = _drop(settings, storage, keep_days, progress, whole=whole)
    typer.echo("\n".join(done))


@app.command()
@of_settings("role", is_optional=True, log_level=LogLevel.WARNING, role=ROLE)
def verify(
    settings: Settings | None,
    *,
    archive: ArchiveLocation,
    findings_max: FindingsMax = FINDINGS_MAX,
    as_json: ReportAsJson = False,
) -> None:
    """Prove the archived log from storage alone; with --dsn or --data-dir also that it is that database's log.

    Exits with 0 if all holds, with 1 and a line for each finding otherwise, and with 2 if it could not check.
    """
    report = asyncio.run(
        _verify(
            settings and existing(settings), ArchiveStorage(object_storage.open_location(archive)), findings_max
        )
    )
    _show(report, as_json=as_json)
    if not report.holds:
        raise typer.Exit(1)


@app.command(name="status")
@of_settings("role", is_optional=True, log_level=LogLevel.WARNING)
def show_status(
    settings: Settings | None,
    *,
    archive: OptionalArchive = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as JSON.")] = False,
) -> None:
    """Show the end, the runs and the size of an archive; with --dsn or --data-dir also the log in PostgreSQL.

    It lists the eras of the log, and for each table the events that cannot leave, the cause, its age, and what
    ends it. Without --archive, the location is the one that the database names. The command chronolake archive
    status TABLE shows something else: what holds the active timeline of Hudi's readers.
    """
    if settings is None and archive is None:
        raise typer.BadParameter(
            "name an archive, or a database with --dsn or --data-dir", param_hint="--archive"
        )
    of_archive, of_log = asyncio.run(_status(settings and existing(settings), archive))
    if as_json:
        proving.echo_json({"archive": of_archive, "log": of_log})
        return
    if of_archive is not None:
        _show_archive(of_archive)
    if of_log is not None:
        _show_log(of_log)


async def _status(
    settings: Settings | None, location: str | None
) -> tuple[ArchiveStatus | None, LogStatus | None]:
    if settings is not None:
        await _check_database(settings)
        with diagnosis.missing_rights(settings.role, writes=False):
            location = location or await verification.recorded_location(settings)
    storage = None if location is None else ArchiveStorage(object_storage.open_location(location))
    of_archive = None
    if storage is not None:
        try:
            of_archive = status.of_archive(storage)
        except ArchiveDamaged as exc:
            raise errors.ConfigurationError(f"the archive is damaged: {exc}") from exc
    if settings is None:
        return of_archive, None
    with diagnosis.missing_rights(settings.role, writes=False):
        return of_archive, await status.of_log(settings, storage)


def _show_archive(shown: ArchiveStatus) -> None:
    for run in shown.runs:
        typer.echo(f"{run.name}: level {run.level}, {count(run.events, 'event')}, {run.size_bytes} bytes")
    typer.echo(
        f"{count(len(shown.runs), 'run')} to transaction {shown.end}: {count(shown.events, 'event')}, "
        f"{shown.size_bytes} bytes, {shown.bytes_per_event:.1f} an event"
    )
    if shown.unlisted_files:
        typer.echo(f"{count(shown.unlisted_files, 'file')} of runs that are not listed: no part of the archive")


def _show_log(shown: LogStatus) -> None:
    for part in shown.parts:
        named = f"era {part.last}" if part.first == part.last else f"eras {part.first} to {part.last}"
        ended = "now" if part.ended_at is None else f"{part.ended_at:%Y-%m-%d %H:%M}"
        left = [
            f"; {what} left at {time:%Y-%m-%d %H:%M}"
            for what, time in (("answers", part.answers_left_at), ("events", part.events_left_at))
            if time is not None
        ]
        typer.echo(
            f"{named}, {part.began_at:%Y-%m-%d %H:%M} to {ended}: about {count(part.events, 'event')} and "
            f"{count(part.rows, 'row')} beside them, {part.size_bytes} bytes{''.join(left)}"
        )
    for table in shown.tables:
        dropped = " (dropped)" if table.is_dropped else ""
        leaving = f"; {table.leaving} may leave" if table.leaving else ""
        typer.echo(
            f"{table.table}{dropped}: {count(table.needed, 'event')} from version {table.first_needed} on: "
            f"{_cause(table)}{leaving}"
        )
    for border in shown.instants:
        since = f"from {to_datetime(border.since):%Y-%m-%d %H:%M} on" if border.since else "all"
        may_leave = "; more may leave" if border.until > border.since else ""
        dropped = " (dropped)" if border.is_dropped else ""
        typer.echo(f"{border.table}{dropped}: instants {since}, for {border.held_by}{may_leave}")
    if shown.largest_cause is not None:
        typer.echo(_line_of_cause(shown.largest_cause))


def _line_of_cause(cause: HoldingCause) -> str:
    tables = count(cause.tables, "table")
    most = f"those of {cause.most.table}: {_cause(cause.most)}"
    return f"most events stay for {cause.held_by}, {cause.events} of {tables}; {most}"


def _cause(held: HeldEvents) -> str:
    since = "" if held.since is None else f" since {held.since:%Y-%m-%d %H:%M}"
    age = "" if held.age_seconds is None else f" ({held.age_seconds / 86_400:.1f} days)"
    return f"{held.held_by}{since}{age}: {held.advice}"


def _paced(*, fast: bool) -> Pace:
    if fast:
        return pace_.FULL_SPEED
    pace_.lower_priority()
    return Pace()


def _write(settings: Settings, storage: ArchiveStorage, pace: Pace) -> str:
    """Archive once; gives a line about the result."""

    async def run() -> writing.Archived:
        await _check_database(settings)
        with diagnosis.missing_rights(settings.role, writes=False):
            return await writing.write(settings, storage, pace=pace)

    done = asyncio.run(run())
    merges = f", {count(done.merges, 'merge')}" if done.merges else ""
    return f"{count(done.runs, 'new run')}, {count(done.events, 'event')}, {done.size_bytes} bytes{merges}"


def _drop(
    settings: Settings, storage: ArchiveStorage, keep_days: int, progress: Progress, *, whole: bool = False
) -> list[str]:
    """Drop once; gives a line about the result, and one about the largest cause for which events stay."""

    async def run() -> tuple[dropping.Dropped, HoldingCause | None]:
        await _check_database(settings)
        done = await dropping.drop(settings, storage, keep_days * 86_400, progress, whole=whole)
        return done, await status.largest_cause(msgspec.structs.replace(settings, role="none"))

    done, cause = asyncio.run(run())
    left = []
    if done.eras:
        left.append(f"the answers of {count(len(done.eras), 'era')} were dropped")
    if done.events:
        left.append(f"{count(done.events, 'event')} left")
    if done.instants:
        left.append(f"{count(done.instants, 'instant')} left")
    dropped = ", ".join(left) or "nothing to drop"
    began = "" if done.began is None else f", era {done.began} began"
    eras = count(len(done.waiting), "era")
    waiting = f"; {eras} can leave after the next archive write" if done.waiting else ""
    kept = f"; PostgreSQL has the answers of {count(done.kept, 'era')}"
    line = f"{dropped}{began}{waiting}{kept}"
    return [line] if cause is None else [line, _line_of_cause(cause)]


async def _verify(settings: Settings | None, storage: ArchiveStorage, findings_max: int) -> ArchiveReport:
    if settings is not None:
        await _check_database(settings)
        with diagnosis.missing_rights(settings.role, writes=False):
            await verification.refuse_other(settings, storage)
    with proving.shown_progress() as progress:
        verified = await verification.verify(storage, findings_max=findings_max, progress=progress)
    if settings is None:
        return verified.report
    with diagnosis.missing_rights(settings.role, writes=False):
        return await verification.compared(settings, verified.report, verified.ends)


async def _check_database(settings: Settings) -> None:
    await readiness.check_at_start(settings, writes=False)


def _show(report: ArchiveReport, *, as_json: bool) -> None:
    if as_json:
        proving.echo_json(report)
        return
    proving.show_findings(report)
    typer.echo(
        f"{count(report.runs, 'run')}, {count(report.events, 'event')}, {count(report.outcomes, 'outcome')}, "
        f"{count(report.files, 'file')} {proving.conclusion(report)}"
    )
