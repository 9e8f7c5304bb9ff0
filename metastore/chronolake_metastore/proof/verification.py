"""Proving the log: the chain of each table, the rows that it covers, and the projections against a replay.

Only temporary tables are written, and servers write meanwhile: the log is read to its end in the transaction
that compares the projections, so that both are of one moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.heads import Heads
from chronolake_metastore.domain.proof import NOTHING, Check, ProofFinding, SharedBasePath
from chronolake_metastore.domain.stored_events import StoredEvent
from chronolake_metastore.projections.registry import TABLES
from chronolake_metastore.proof import archived_rows, event_lists
from chronolake_metastore.proof.answer_chains import AnswersVerification
from chronolake_metastore.proof.archived_rows import ArchivedLogRows
from chronolake_metastore.proof.log_checks import CATALOG, DatabaseRows, LogChecks
from chronolake_metastore.proof.replay import LogReader, Progress, Replay, no_progress
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import proof, replay_tables
from chronolake_metastore.store.eras import ThinnedEras
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Transaction
from chronolake_metastore.store.replay_tables import Difference, ReplaySession
from chronolake_model import decoding
from chronolake_model.names import split_table_name

FINDINGS_MAX: Final = 100


class Report(msgspec.Struct, frozen=True):
    """Numbers of what was verified, and the findings: none if everything is correct.

    ``findings_left_out`` is the number of further findings; ``not_compared`` are tables whose log is damaged,
    so that a replay of it says nothing about their projections. ``shared_base_paths`` are not findings: the log
    is correct.
    """

    tables: int
    events: int
    files: int
    documents: int
    seconds: float
    findings: list[ProofFinding]
    findings_left_out: int
    not_compared: list[str]
    shared_base_paths: list[SharedBasePath]

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


async def verify(
    settings: Settings,
    progress: Progress = no_progress,
    *,
    table: str | None = None,
    documents: Iterable[Heads | ProofFinding] = (),
    findings_max: int = FINDINGS_MAX,
    archived: ArchivedLogRows | None = None,
) -> Report:
    """Verify the log and the projections, of all tables or of one, and that the heads are still in the log.

    ``archived`` has the rows that have left PostgreSQL. Raises ``ConfigurationError`` when there is no such
    table, or rows have left and ``archived`` is None; and ``DatabaseUnavailable``.
    """
    began = time.monotonic()
    database = Database(settings)
    try:
        async with replay_tables.opened(database, TABLES) as session:
            thinned = await archived_rows.add(session, archived, progress)
            async with session.replaying() as tx:
                table_id = None if table is None else await _find(tx, table)
                length = await proof.log_length(tx, table_id)
            verification = _Verification(table_id, findings_max, progress, length, thinned)
            try:
                await verification.run(session, documents)
            except replay_tables.Unreplayable as exc:
                verification.add_finding(
                    ProofFinding(Check.REPLAY, "", None, str(exc), "events that agree", "others")
                )
    finally:
        await database.close()
    return verification.report(time.monotonic() - began)


async def _find(tx: Transaction, table: str) -> UUID:
    try:
        namespace, name = split_table_name(table)
    except ValueError as exc:
        raise errors.ConfigurationError(str(exc)) from exc
    table_id = await proof.find_table(tx, namespace, name)
    if table_id is None:
        raise errors.ConfigurationError(
            f"the catalog has no table {table!r}; check the name, or verify the catalog too: leave --table out"
        )
    return table_id


class _Verification:
    """One run, with its findings."""

    def __init__(
        self,
        table_id: UUID | None,
        findings_max: int,
        progress: Progress,
        length: int,
        thinned: ThinnedEras | None,
    ) -> None:
        self._thinned = thinned
        self._table_id = table_id
        self._findings_max = findings_max
        self._progress = progress
        self._length = length
        self._reader = LogReader(table_id)
        self._log = LogChecks(self.add_finding)
        self._replay = Replay()
        self._answers = AnswersVerification(table_id, self._name, self.add_finding)
        self._damaged: set[UUID] = set()
        self._documents = 0
        self._findings: list[ProofFinding] = []
        self._left_out = 0
        self._shared_base_paths: list[SharedBasePath] = []

    async def run(self, session: ReplaySession, documents: Iterable[Heads | ProofFinding]) -> None:
        """Go through the log, then through what must agree with it."""
        async with session.replaying() as tx:
            await self._replay.begin(tx)
        await self._reader.read_until_recent(session, self._take)
        self._progress("following the chains of answers", 0, 0)
        await self._answers.read_until_recent(session)
        self._progress("looking for what has no event", 0, 0)
        async with session.replaying() as tx:
            if self._thinned is not None:
                limit = self._findings_max + 1
                for finding in await archived_rows.compare_kept(session, tx, self._thinned, self._name, limit):
                    self.add_finding(finding)
            await self._find_orphans(tx)
            await self._answers.find_orphans(tx, self._findings_max + 1)
            self._shared_base_paths = await proof.shared_base_paths(tx, self._table_id, self._findings_max)
        for document in documents:
            self._documents += 1
            if isinstance(document, ProofFinding):
                self.add_finding(document)
                continue
            # The next document is fetched from storage outside of a transaction, because it may take long.
            async with session.replaying() as tx:
                await self._check_heads(tx, document)
                await self._answers.check_heads(tx, document)
        async with session.at_one_moment() as tx:
            await self._reader.read_remainder(tx, self._take)
            self._close_the_log()
            await self._answers.read_remainder(tx)
            self._progress("comparing the projections", 0, 0)
            left_out = self._damaged
            rows = await session.differences(tx, self._table_id, left_out, self._findings_max + 1)
            for difference in rows:
                self.add_finding(self._differs(difference))

    def report(self, seconds: float) -> Report:
        """The report."""
        return Report(
            tables=self._log.chains.tables,
            events=self._reader.events,
            files=self._log.files,
            documents=self._documents,
            seconds=seconds,
            findings=self._findings,
            findings_left_out=self._left_out,
            not_compared=sorted(map(self._name, self._damaged)),
            shared_base_paths=self._shared_base_paths,
        )

    def add_finding(self, finding: ProofFinding, table_id: UUID | None = None) -> None:
        """Note a finding. With ``table_id``, the table's log cannot be replayed."""
        if len(self._findings) < self._findings_max:
            self._findings.append(finding)
        else:
            self._left_out += 1
        if table_id is not None:
            self._damaged.add(table_id)

    async def _take(self, tx: Transaction, page: Sequence[StoredEvent]) -> None:
        events = await self._log.check(DatabaseRows(tx), page)
        await self._check_outcomes(tx, page)
        await self._replay.apply(tx, [event for event in events if not self._is_damaged(event.table_id)])
        self._progress("reading the log", self._reader.events + len(page), self._length)

    def _is_damaged(self, table_id: UUID) -> bool:
        return table_id in self._damaged or self._log.chains.is_broken(table_id)

    async def _check_outcomes(self, tx: Transaction, page: Sequence[StoredEvent]) -> None:
        without = await proof.requests_without_outcome(tx, [stored.request_id for stored in page])
        for stored in page:
            if stored.request_id in without:
                what = f"{stored.type}: the outcome of its request {stored.request_id!r}"
                name = self._name(stored.table_id)
                self.add_finding(ProofFinding(Check.OUTCOME, name, stored.version, what, "an outcome", NOTHING))

    async def _find_orphans(self, tx: Transaction) -> None:
        limit = self._findings_max + 1
        for (table_id, version), count in await proof.write_stats_without_event(tx, self._table_id, limit):
            what = "write stats that no event published"
            self.add_finding(
                ProofFinding(Check.WRITE_STATS, self._name(table_id), version, what, NOTHING, f"{count} files")
            )
        for (table_id, version), count in await proof.deleted_files_without_event(tx, self._table_id, limit):
            what = "deleted files that no event reported"
            self.add_finding(
                ProofFinding(Check.DELETIONS, self._name(table_id), version, what, NOTHING, f"{count} files")
            )
        for finding in await event_lists.find_orphans(tx, self._table_id, limit, self._name):
            self.add_finding(finding)
        for (table_id, version), request_id in await proof.outcomes_without_event(tx, self._table_id, limit):
            what = f"the version that the outcome of {request_id!r} names"
            self.add_finding(
                ProofFinding(Check.OUTCOME, self._name(table_id), version, what, "an event", NOTHING)
            )

    async def _check_heads(self, tx: Transaction, document: Heads) -> None:
        heads = [
            head for head in document.heads if self._table_id is None or UUID(head.table_id) == self._table_id
        ]
        hashes = await proof.hashes(tx, [(UUID(head.table_id), head.version) for head in heads])
        for head in heads:
            digest = hashes.get((UUID(head.table_id), head.version))
            actual = NOTHING if digest is None else digest.hex()
            if actual != head.hash:
                what = f"the head that {document.name} keeps"
                name = head.table or self._name(UUID(head.table_id))
                self.add_finding(ProofFinding(Check.HEAD, name, head.version, what, head.hash, actual))

    def _close_the_log(self) -> None:
        """Note the findings that are only known at the end of the log."""
        self._log.close()
        for table_id, refusal in self._replay.refused.items():
            if table_id not in self._damaged:
                event = refusal.event
                what = f"{event.type}: {refusal.reason}"
                expected = "an event that may follow"
                self.add_finding(
                    ProofFinding(Check.REPLAY, self._name(table_id), event.version, what, expected, event.type),
                    table_id,
                )

    def _differs(self, difference: Difference) -> ProofFinding:
        expected, actual = _row(difference.expected), _row(difference.found)
        either = expected or actual
        assert either is not None
        named = ", ".join(f"{column}={either[column]}" for column in difference.key if column != "table_id")
        what = f"{difference.projection}({named})" if named else difference.projection
        table = CATALOG if difference.table_id is None else self._answers.name_of(difference.table_id)
        # Rows may be long, so name the columns that differ.
        differing = None
        if expected is not None and actual is not None:
            differing = [column for column in expected if expected[column] != actual[column]]
        version = either.get("version")
        return ProofFinding(
            Check.PROJECTION,
            table,
            version if isinstance(version, int) else None,
            what,
            _text_of(expected, differing),
            _text_of(actual, differing),
        )

    def _name(self, table_id: UUID) -> str:
        return self._log.name(table_id)


def _row(text: str | None) -> dict[str, object] | None:
    return None if text is None else decoding.decode(text, dict[str, object])


def _text_of(row: dict[str, object] | None, columns: Sequence[str] | None) -> str:
    if row is None:
        return NOTHING
    if columns is None:
        return "a row"
    return ", ".join(f"{column}={msgspec.json.encode(row[column]).decode()}" for column in columns)
