"""Proving an archive before rows leave for it: new runs by their rows, runs of earlier proofs by digests.

A description has the digests of the files of its run. So a run whose description is the one that was recorded
when its rows were proved has these rows, if its files have these digests. Those files are compared that hold
what leaves now, and those without which a server cannot find or read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow.compute as pc

from chronolake_metastore import errors
from chronolake_metastore.archive import verification
from chronolake_metastore.archive.instant_reading import in_micros
from chronolake_metastore.archive.rows import INSTANT
from chronolake_metastore.archive.run_reading import ReadCache, RunReader
from chronolake_metastore.archive.storage import ArchiveDamaged, ArchiveStorage
from chronolake_metastore.archive.verification import VerifiedArchive
from chronolake_metastore.domain.archives import ListedRun
from chronolake_metastore.domain.leaving_rows import LeavingRows, RowRange, RowRanges
from chronolake_metastore.proof.replay import Progress
from chronolake_metastore.settings import Settings

_CACHE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Decoded columns of the runs that are kept in memory."""
_REQUESTED: Final = "requested_time"
_VERSIONS: Final = ("first_version", "version")
_DOING: Final = "reading back from the archive what leaves"


class ArchiveProof:
    """The proof of an archive for one command, made when it is first needed.

    ``recorded`` are the digests of the descriptions of runs that were proved before, in their order.
    """

    def __init__(
        self, settings: Settings, storage: ArchiveStorage, recorded: Sequence[str], progress: Progress
    ) -> None:
        self._settings = settings
        self._storage = storage
        self._recorded = recorded
        self._progress = progress
        self._proved: VerifiedArchive | None = None
        self._cache = ReadCache(_CACHE_BYTES_MAX)
        self._read_back: set[tuple[str, str]] = set()
        """The runs and the names of files that were read back."""

    async def proved(self) -> VerifiedArchive:
        """The archive, which is proved, and which is the archive of this log; raises ``ConfigurationError``."""
        if self._proved is None:
            verified = await verification.verify(
                self._storage, recorded=self._recorded, progress=self._progress
            )
            report = await verification.compared(self._settings, verified.report, verified.ends)
            for finding in report.findings:
                raise errors.ConfigurationError(
                    f"the archive does not prove what it has: {finding.table}: {finding.what}: expected "
                    f"{finding.expected}, found {finding.found}; run archive verify; nothing was dropped"
                )
            self._proved = verified
        return self._proved

    @property
    def runs(self) -> list[str]:
        """The digests of the descriptions of all runs once they are proved; empty before."""
        return [] if self._proved is None else [run.sha256 for run in self._proved.manifest.runs]

    async def read_back(self, leaving: LeavingRows) -> None:
        """Read the files of trusted runs that hold what leaves; raises ``ConfigurationError``.

        The other runs were proved now.
        """
        archive = await self.proved()
        trusted = archive.manifest.runs[: archive.trusted]
        for number, listed in enumerate(trusted):
            self._progress(_DOING, number, len(trusted))
            try:
                self._read_run(listed, leaving)
            except ArchiveDamaged as exc:
                raise errors.ConfigurationError(self._reason(listed, exc)) from exc

    def _read_run(self, listed: ListedRun, leaving: LeavingRows) -> None:
        run = self._cache.run(self._storage, listed)
        self._read_files(run, leaving)
        # The archive makes an instant from its events.
        events = _events_of_instants(run, leaving.instants)
        self._read_files(run, LeavingRows(events=events))
        for of_events in (leaving.events, events):
            answers = _answers_of_events(run, of_events)
            self._read_files(run, LeavingRows(answers_of_events=answers))

    def _read_files(self, run: RunReader, leaving: LeavingRows) -> None:
        for file in leaving.files(run.run):
            if (run.listed.name, file.name) not in self._read_back:
                self._storage.content(run.listed, file)
                self._read_back.add((run.listed.name, file.name))

    def _reason(self, listed: ListedRun, exc: ArchiveDamaged) -> str:
        if listed in self._storage.manifest().runs:
            return (
                f"the archive does not have what would leave: {exc.name}: expected {exc.expected}, found "
                f"{exc.found}; run archive verify; these rows stay in PostgreSQL"
            )
        return "other archivers merged runs meanwhile; run this command again when no archive write runs"


def _events_of_instants(run: RunReader, instants: RowRanges) -> RowRanges:
    """The events of a run from the first to the last of each of these instants. Raises ``ArchiveDamaged``."""
    events: list[RowRange] = []
    for (table_id, first), (_, last) in instants.of(run.run.events):
        requested = range(first, last + 1)
        for batch in run.parts(INSTANT, table_id, requested, (_REQUESTED, *_VERSIONS), in_micros):
            times = batch.column(_REQUESTED)
            of_range = batch.filter(pc.and_(pc.greater_equal(times, first), pc.less_equal(times, last)))
            versions = (of_range.column(name).to_pylist() for name in _VERSIONS)
            events += [(table_id, low, high) for low, high in zip(*versions, strict=True)]
    return RowRanges(events)


def _answers_of_events(run: RunReader, events: RowRanges) -> RowRanges:
    """The answers with which these events of a run are read: each has the hash of one, and the id of the next.

    Raises ``ArchiveDamaged``.
    """
    answers: list[RowRange] = []
    for (table_id, first), (_, last) in events.from_checkpoints().within(run.run.events):
        rows = range(run.events.row(table_id, first), run.events.row(table_id, last) + 1)
        for _, batch in run.columns("event", rows, "answers"):
            least, greatest = (limit.as_py() for limit in pc.min_max(batch.column("answers")).values())
            if least is not None:
                answers.append((table_id, least, greatest + 1))
    return RowRanges(answers)
