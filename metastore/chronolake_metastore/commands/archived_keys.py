"""Outcomes of commands that are only in the archive of the log: old keys keep their answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from chronolake_metastore import errors
from chronolake_metastore.store import archived
from chronolake_metastore.store.archived import ArchivedLog, LogBorder
from chronolake_metastore.store.outcomes import StoredOutcome
from chronolake_metastore.store.postgres.engine import Database


class AskArchive(Exception):
    """The archive must be asked before the group is decided. The transaction ends, and is run again."""

    def __init__(self, border: LogBorder, request_ids: Sequence[str]) -> None:
        super().__init__(border, request_ids)
        self.border, self.request_ids = border, request_ids


class ArchivedKeys:
    """The keys of a group of commands that the archive was asked for. No transaction waits for storage."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._asked: dict[str, StoredOutcome | errors.Unavailable | None] = {}

    @property
    def _log(self) -> ArchivedLog | None:
        return archived.log_of(self._database)

    def find(
        self, border: LogBorder | None, request_ids: Collection[str]
    ) -> tuple[dict[str, StoredOutcome], dict[str, errors.Unavailable]]:
        """The archived outcomes of request ids that the database does not have, and failures to read them.

        The ``border`` was read after the outcomes, so a row that has left the database since is before it.
        Raises ``AskArchive``.
        """
        if border is None or not request_ids:
            return {}, {}
        # First: another thread may take in what was archived since, but never the other way.
        is_complete = self._log is not None and border.is_archived(self._log)
        unknown = [key for key in request_ids if key not in self._asked and self._may_have(key)]
        if unknown or not is_complete:
            raise AskArchive(border, unknown)
        asked = [(key, self._asked.get(key)) for key in request_ids]
        return (
            {key: outcome for key, outcome in asked if isinstance(outcome, StoredOutcome)},
            {key: failure for key, failure in asked if isinstance(failure, errors.Unavailable)},
        )

    async def ask(self, question: AskArchive) -> None:
        """Ask the archive. A key whose outcome cannot be read fails alone.

        Raises ``ArchiveNotSet``, or ``ArchiveUnavailable`` when no key can be told to be new.
        """
        await archived.ask(self._database, question.border, lambda log: log.end, of_outcomes=True)
        for key in question.request_ids:
            try:
                asked = archived.ask(self._database, question.border, _outcome_of(key), of_outcomes=True)
                self._asked[key] = await asked
            except errors.ArchiveUnavailable as exc:
                self._asked[key] = exc

    def _may_have(self, key: str) -> bool:
        return self._log is not None and self._log.may_have_outcome(key)


def _outcome_of(key: str) -> Callable[[ArchivedLog], StoredOutcome | None]:
    return lambda log: log.outcome(key)
