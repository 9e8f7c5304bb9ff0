"""Verifying an archive from storage alone, and its ends against the log of a database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from uuid import UUID

import msgspec
import pyarrow as pa

from chronolake_metastore import errors
from chronolake_metastore.archive import indexes, rows
from chronolake_metastore.archive.indexes import IndexCheck
from chronolake_metastore.archive.instant_index import InstantCheck
from chronolake_metastore.archive.pace import FULL_SPEED, Pace
from chronolake_metastore.archive.rows import Row
from chronolake_metastore.archive.run_rows import RunRows
from chronolake_metastore.archive.storage import ArchiveDamaged, ArchiveStorage
from chronolake_metastore.domain import archives
from chronolake_metastore.domain.archives import ArchiveEnds, ArchiveManifest, ArchiveRun, ListedRun
from chronolake_metastore.domain.logs import START, ChainHead, StoredAnswer
from chronolake_metastore.domain.proof import NOTHING, Check, ProofFinding
from chronolake_metastore.proof.log_checks import LogChecks
from chronolake_metastore.proof.replay import Progress, no_progress
from chronolake_metastore.proof.verification import FINDINGS_MAX
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import archive, archived, eras
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Transaction
from chronolake_metastore.store.proof import EventKey

_TRIES_MAX: Final = 5
_DOING: Final = "verifying the archive"


class ArchiveReport(msgspec.Struct, frozen=True):
    """Numbers of what was verified, and the findings: none if everything is correct.

    ``findings_left_out`` is the number of further findings.
    """

    metastore_id: UUID | None
    runs: int
    events: int
    outcomes: int
    files: int
    seconds: float
    findings: list[ProofFinding]
    findings_left_out: int

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


class VerifiedArchive(msgspec.Struct, frozen=True):
    """The result of a verification: the runs, the number of ``trusted`` first ones, and the ends.

    The rows of the trusted runs were not read. The ends are those of the descriptions.
    """

    manifest: ArchiveManifest
    trusted: int
    report: ArchiveReport
    ends: ArchiveEnds


async def verify(
    storage: ArchiveStorage,
    *,
    recorded: Sequence[str] = (),
    findings_max: int = FINDINGS_MAX,
    progress: Progress = no_progress,
) -> VerifiedArchive:
    """Verify all runs; of the first ones whose descriptions have the ``recorded`` digests, these alone.

    Raises ``ConfigurationError`` where there is no archive, or other archivers merge runs again and again.
    """
    for _ in range(_TRIES_MAX):
        verified = await _verify_once(storage, recorded, findings_max, progress)
        runs = verified.manifest.runs
        # Two archive writes merge runs, and remove them. Their files are missing then, and nothing is damaged.
        if verified.report.holds or not runs or {*runs} <= {*storage.manifest().runs}:
            return verified
    raise errors.ConfigurationError(
        "other archivers merged runs all the time; verify when no archive write runs"
    )


async def _verify_once(
    storage: ArchiveStorage, recorded: Sequence[str], findings_max: int, progress: Progress
) -> VerifiedArchive:
    began = time.monotonic()
    verification = RunVerification(findings_max)
    ends = ArchiveEnds()
    try:
        manifest = storage.existing_manifest()
    except ArchiveDamaged as exc:
        verification.add_damage(exc)
        manifest = ArchiveManifest()
    trusted = archives.trusted_runs(manifest, recorded)
    total = sum(run.events for run in manifest.runs[trusted:])
    for number, listed in enumerate(manifest.runs):
        try:
            run = storage.run(listed)
        except ArchiveDamaged as exc:
            verification.add_damage(exc)
            continue
        for finding in [*archives.check_order(manifest, number, run), *ends.check(listed.name, run)]:
            verification.add(finding)
        if number >= trusted:
            await verification.verify(storage, listed, run, ends, lambda done: progress(_DOING, done, total))
        ends.add(run)
    report = verification.report(manifest, time.monotonic() - began)
    return VerifiedArchive(manifest, trusted, report, ends)


def described_ends(storage: ArchiveStorage) -> ArchiveEnds:
    """The ends of an archive by the descriptions of its runs, without a proof. Raises ``ArchiveDamaged``."""
    ends = ArchiveEnds()
    for listed in storage.manifest().runs:
        ends.add(storage.run(listed))
    return ends


async def refuse_other(settings: Settings, storage: ArchiveStorage) -> None:
    """Raise ``ConfigurationError`` unless an archive is of a database's log, and has all that left it.

    Every row would be a finding otherwise. Raises ``DatabaseUnavailable``.
    """
    manifest = storage.manifest()
    database = Database(settings)
    try:
        async with archive.at_one_moment(database) as tx:
            await refuse_other_manifest(tx, manifest, storage.location)
    finally:
        await database.close()
    storage.existing_manifest()


async def recorded_location(settings: Settings) -> str | None:
    """The location of the archive that has what left a database; None if nothing did.

    Raises ``DatabaseUnavailable``.
    """
    database = Database(settings)
    try:
        async with archive.at_one_moment(database) as tx:
            recorded = await eras.recorded(tx)
    finally:
        await database.close()
    return None if recorded is None else recorded.location


async def refuse_other_manifest(tx: Transaction, manifest: ArchiveManifest, location: str) -> None:
    """As ``refuse_other``, in a transaction; it also raises where no archive has what left the database."""
    identities = await archive.identities(tx)
    border = await tx.fetch_one(archived.find_border_of_answers())
    if border is not None and not manifest.runs:
        raise errors.ConfigurationError(
            f"there is no archive at {location}, and the database lacks what has left for the archive at "
            f"{border.location}: "
            + ("put it back" if border.location == location else "name that one, or a copy of it")
        )
    recorded = "" if border is None else f"; the log has left for the archive at {border.location}"
    if manifest.metastore_id is not None and manifest.metastore_id not in identities:
        raise errors.ConfigurationError(
            f"the archive at {location} is of the metastore {manifest.metastore_id}, whose identity this "
            f"database never had; name the archive of this database{recorded}"
        )
    if border is not None and manifest.end < border.transaction_id:
        raise errors.ConfigurationError(
            f"the archive at {location} ends before transaction {manifest.end}, and the database lacks rows up "
            f"to transaction {border.transaction_id}: it is an older copy{recorded}"
        )


class RunVerification:
    """Verifies runs, one after the other, and holds the findings."""

    def __init__(self, findings_max: int = FINDINGS_MAX, pace: Pace = FULL_SPEED) -> None:
        self._findings_max = findings_max
        self._pace = pace
        self._findings: list[ProofFinding] = []
        self._left_out = 0
        self._checks = LogChecks(self.add)
        self.events = 0
        self._outcomes = 0

    @property
    def findings(self) -> Sequence[ProofFinding]:
        """The first findings."""
        return self._findings

    async def verify(
        self,
        storage: ArchiveStorage,
        listed: ListedRun,
        run: ArchiveRun,
        ends: ArchiveEnds,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Verify the files and the rows of a run, which begins at ``ends``.

        ``progress`` takes the number of the events of all runs so far.
        """
        self._checks.chains.begin_after(ends.events)
        try:
            checks: dict[str, IndexCheck | InstantCheck] = {
                index: IndexCheck(index, self._rows(storage, listed, run, index)) for index in indexes.SOURCE
            }
            checks[rows.INSTANT] = InstantCheck(self._rows(storage, listed, run, rows.INSTANT))

            def source(table: str) -> Iterator[Row]:
                table_rows = self._rows(storage, listed, run, table)
                for index, check in checks.items():
                    if table == indexes.SOURCE.get(index, "event"):
                        table_rows = check.watch(table_rows)
                return table_rows

            log_rows = RunRows(source, ends, self._take_answer, self._add_row)
            for page in log_rows.pages():
                await self._checks.check(log_rows, page)
                self.events += len(page)
                progress(self.events)
                self._pace.rest()
            log_rows.finish()
            for index, check in checks.items():
                if not check.fits():
                    self.add(archives.damage(listed.name, f"the index {index}", "that of its rows", "another"))
        except ArchiveDamaged:
            for exc in _damaged_files(storage, listed, run):
                self.add_damage(exc)
            return
        except (ValueError, pa.ArrowException) as exc:
            self.add(archives.damage(listed.name, "its rows", "rows of the log", str(exc)[:200]))
            return
        self._compare_ends(listed.name, log_rows.ends_of_rows, _after(ends, run))

    def add(self, finding: ProofFinding, table_id: UUID | None = None) -> None:
        """Note a finding, of the log of a table if it is given."""
        if len(self._findings) < self._findings_max:
            self._findings.append(finding)
        else:
            self._left_out += 1

    def add_damage(self, exc: ArchiveDamaged) -> None:
        """Note a file that is missing or changed."""
        self.add(archives.damage(exc.name, "the file", exc.expected, exc.found))

    def report(self, manifest: ArchiveManifest, seconds: float) -> ArchiveReport:
        """The report."""
        return ArchiveReport(
            metastore_id=manifest.metastore_id,
            runs=len(manifest.runs),
            events=self.events,
            outcomes=self._outcomes,
            files=self._checks.files,
            seconds=seconds,
            findings=self._findings,
            findings_left_out=self._left_out,
        )

    def _rows(self, storage: ArchiveStorage, listed: ListedRun, run: ArchiveRun, table: str) -> Iterator[Row]:
        """The rows of a table or an index; notes files whose bounds are not as described."""
        for file in run.files:
            if file.table == table:
                bounds = rows.BoundsOfRows(table)
                for number, row in enumerate(rows.read(table, storage.content(listed, file))):
                    bounds.add(row)
                    self._pace.after_row(number)
                    yield row
                if bounds.result() != file.bounds:
                    name = f"{listed.name}/{file.name}"
                    self.add(archives.damage(name, "the bounds of its rows", "as described", "others"))

    def _take_answer(self, answer: StoredAnswer, findings: Sequence[ProofFinding]) -> None:
        self._outcomes += 1
        for finding in findings:
            self.add(finding)

    def _add_row(self, what: str, key: EventKey) -> None:
        self.add(ProofFinding(Check.ARCHIVE, self._checks.name(key[0]), key[1], what, NOTHING, "a row"))

    def _compare_ends(self, name: str, found: ArchiveEnds, expected: ArchiveEnds) -> None:
        for what, of_rows, described in (
            ("event", found.events, expected.events),
            ("outcome", found.outcomes, expected.outcomes),
        ):
            for chain_id in sorted({*of_rows, *described}):
                head, end = of_rows.get(chain_id, START), described.get(chain_id, START)
                if head != end:
                    table = self._checks.name(chain_id)
                    text = f"{name}: the last {what} of chain {chain_id}, by the rows"
                    self.add(ProofFinding(Check.ARCHIVE, table, end.number, text, _text(end), _text(head)))


async def compared(settings: Settings, report: ArchiveReport, ends: ArchiveEnds) -> ArchiveReport:
    """The report, with a finding if the archive is not of the log of a database.

    Raises ``DatabaseUnavailable``.
    """
    database = Database(settings)
    try:
        async with archive.at_one_moment(database) as tx:
            refusal = (await archive.compare(tx, ends, report.metastore_id)).refusal()
    finally:
        await database.close()
    if refusal is None:
        return report
    finding = archives.damage("the archive", "the log", "the log of the database", refusal)
    return msgspec.structs.replace(report, findings=[*report.findings, finding])


def _damaged_files(storage: ArchiveStorage, listed: ListedRun, run: ArchiveRun) -> list[ArchiveDamaged]:
    damaged = []
    for file in run.files:
        try:
            storage.content(listed, file)
        except ArchiveDamaged as exc:
            damaged.append(exc)
    return damaged


def _after(ends: ArchiveEnds, run: ArchiveRun) -> ArchiveEnds:
    after = ArchiveEnds(dict(ends.events), dict(ends.outcomes))
    after.add(run)
    return after


def _text(head: ChainHead) -> str:
    return f"{head.number}, {head.hash.hex()}" if head.number else NOTHING
