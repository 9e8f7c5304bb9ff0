"""Proving an archive before rows leave for it: new runs by their rows, runs of earlier proofs by digests.

A description has the digests of the files of its run. So a run whose description is the one that was recorded
when its rows were proved has these rows, if its files have these digests. Those files are compared that hold
what leaves now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from chronolake_metastore import errors
from chronolake_metastore.archive import verification
from chronolake_metastore.archive.storage import ArchiveDamaged, ArchiveStorage
from chronolake_metastore.archive.verification import VerifiedArchive
from chronolake_metastore.domain.archives import ListedRun
from chronolake_metastore.domain.leaving_rows import LeavingRows
from chronolake_metastore.proof.replay import Progress
from chronolake_metastore.settings import Settings

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
        for file in leaving.files(self._storage.run(listed)):
            if (listed.name, file.name) not in self._read_back:
                self._storage.content(listed, file)
                self._read_back.add((listed.name, file.name))

    def _reason(self, listed: ListedRun, exc: ArchiveDamaged) -> str:
        if listed in self._storage.manifest().runs:
            return (
                f"the archive does not have what would leave: {exc.name}: expected {exc.expected}, found "
                f"{exc.found}; run archive verify; these rows stay in PostgreSQL"
            )
        return "other archivers merged runs meanwhile; run this command again when no archive write runs"
