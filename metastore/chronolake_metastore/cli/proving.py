"""Verifying and rebuilding at a terminal: progress on standard error, the outcome on standard output."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeElapsedColumn

from chronolake_metastore import object_storage
from chronolake_metastore.archive import verification as archive_verification
from chronolake_metastore.archive.log_rows import RowsOfArchive
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.archive.verification import ArchiveReport
from chronolake_metastore.domain.heads import Heads
from chronolake_metastore.domain.proof import ProofFinding, SharedBasePath
from chronolake_metastore.proof import heads, rebuilding, verification
from chronolake_metastore.proof.rebuilding import Rebuilt
from chronolake_metastore.proof.replay import Progress
from chronolake_metastore.proof.verification import Report
from chronolake_metastore.queries import readiness
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres import diagnosis
from chronolake_model.visible_text import visible, visible_json

LINE_SECONDS: Final = 5.0
"""How often a line tells of progress where there is no terminal to draw on."""


def verify(
    settings: Settings, table: str | None, folder: str | None, archive: str | None, findings_max: int
) -> Report:
    """Verify, and show how far it is; raises ``ConfigurationError`` or ``DatabaseUnavailable``."""

    async def run(progress: Progress) -> Report:
        await readiness.check_at_start(settings, writes=False)
        with diagnosis.missing_rights(settings.role, writes=False):
            if location is not None:
                await archive_verification.refuse_other(settings, location)
            return await verification.verify(
                settings,
                progress,
                table=table,
                documents=documents,
                findings_max=findings_max,
                archived=archived,
            )

    location = _storage(archive)
    archived = None if location is None else RowsOfArchive(location)
    documents = [] if folder is None else heads.read_all(object_storage.open_folder(folder))
    with shown_progress() as progress:
        return asyncio.run(run(progress))


def show(report: Report, *, as_json: bool) -> None:
    """Print a report: a line for each finding, and one that sums it up."""
    if as_json:
        echo_json(report)
        return
    show_findings(report)
    for table in report.not_compared:
        typer.echo(f"{table}: its projections were not compared, because its log is damaged")
    for shared in report.shared_base_paths:
        typer.echo(_line_of_base_path(shared))
    what = f"{count(report.tables, 'log')}, {count(report.events, 'event')}, {count(report.files, 'file')}"
    if report.documents:
        what += f", {count(report.documents, 'document')} of heads"
    typer.echo(f"{what} {conclusion(report)}")


def echo_json(document: object) -> None:
    """Print a document as JSON."""
    typer.echo(visible_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()))


def show_findings(report: Report | ArchiveReport) -> None:
    """Print a line for each finding, and for those that were left out."""
    for finding in report.findings:
        typer.echo(visible(_line(finding)))
    if report.findings_left_out:
        typer.echo(f"... and {report.findings_left_out} findings more")


def conclusion(report: Report | ArchiveReport) -> str:
    """The end of the last line of a report."""
    findings = len(report.findings) + report.findings_left_out
    return f"in {report.seconds:.1f} s: {count(findings, 'finding') if findings else 'all holds'}"


def write_heads(settings: Settings, folder: str) -> str:
    """Write the heads of all logs into a folder; gives a line about the result."""

    async def run() -> Heads:
        await readiness.check_at_start(settings, writes=False)
        with diagnosis.missing_rights(settings.role, writes=False):
            return await heads.collect(settings)

    opened = object_storage.open_folder(folder)
    document = asyncio.run(run())
    heads.write(opened, document)
    return f"{document.name}: the heads of {len(document.heads)} logs"


def _storage(archive: str | None) -> ArchiveStorage | None:
    return None if archive is None else ArchiveStorage(object_storage.open_location(archive))


def rebuild(settings: Settings, archive: str | None, *, with_instants: bool) -> str:
    """Rebuild, and show the progress; gives a line about the result."""

    async def run(progress: Progress) -> Rebuilt:
        await readiness.check_at_start(settings)
        if location is not None:
            await archive_verification.refuse_other(settings, location)
        archived = None if location is None else RowsOfArchive(location)
        return await rebuilding.rebuild(settings, progress, archived, with_instants=with_instants)

    location = _storage(archive)
    with shown_progress() as progress:
        rebuilt = asyncio.run(run(progress))
    wrong = [f"{name} {rows}" for name, rows in rebuilt.repaired.items() if rows]
    repaired = f"corrected rows: {', '.join(wrong)}" if wrong else "all rows were correct"
    return f"rebuilt from {rebuilt.events} events; {repaired}; commands waited {rebuilt.waited_seconds:.1f} s"


def count(number: int, noun: str) -> str:
    """A number of things, in words."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _line(finding: ProofFinding) -> str:
    """A finding as a line."""
    where = finding.table if finding.version is None else f"{finding.table} version {finding.version}"
    return f"{where}: {finding.check}: {finding.what}; expected {finding.expected}, found {finding.found}"


def _line_of_base_path(shared: SharedBasePath) -> str:
    if shared.other is None:
        return (
            f"{shared.table}: its base path cannot be compared, so none of its files is deleted; create the "
            "table anew at an absolute path or a URI"
        )
    return (
        f"{shared.table}: its base path overlaps with that of {shared.other}, so none of its files is deleted; "
        "drop one of the two tables, or create it anew elsewhere"
    )


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Progress on standard error: a bar at a terminal, otherwise lines."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("connecting", total=None)

        def tell(doing: str, done: int, total: int) -> None:
            bar.update(task, description=doing, completed=done, total=total or None)

        yield tell


class _Lines:
    """Progress as lines: for each step one at its beginning, one at its end, and others every few seconds."""

    def __init__(self) -> None:
        self._doing = ""
        self._done = 0
        self._told_at = 0.0

    def __call__(self, doing: str, done: int, total: int) -> None:
        now = time.monotonic()
        is_end = self._done < total <= done
        if doing == self._doing and not is_end and now - self._told_at < LINE_SECONDS:
            return
        self._doing, self._done, self._told_at = doing, done, now
        typer.echo(f"{doing}: {done} of {max(done, total)}" if total else doing, err=True)
