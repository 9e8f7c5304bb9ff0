"""The rows of an archive as rows of PostgreSQL, so that the log is verified over the border of both."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.archive import run_rows
from chronolake_metastore.archive.rows import COLUMNS, ColumnForm, Row
from chronolake_metastore.archive.storage import ArchiveDamaged, ArchiveStorage
from chronolake_metastore.domain.archives import ArchiveEnds, ArchiveRun, ListedRun
from chronolake_metastore.domain.logs import START, ChainHead, StoredAnswer
from chronolake_metastore.domain.stored_events import StoredEvent
from chronolake_metastore.store.replay_tables import LogRow
from chronolake_model.times import Micros, to_datetime

_PLACE: Final = 2
"""Chain and number, which a refusal has in an archive alone."""
_POSITION: Final = list(COLUMNS["event"]).index("position")


class RowsOfArchive:
    """The rows of an archive. Methods block, and raise ``ConfigurationError``."""

    def __init__(self, storage: ArchiveStorage) -> None:
        self._storage = storage

    @property
    def events_count(self) -> int:
        """The number of its events."""
        return sum(listed.events for listed in self._storage.manifest().runs)

    def events(self, border: int) -> Iterator[LogRow]:
        """The events of the transactions before ``border``, with their hashes."""
        for event, position in self._events(border):
            values = msgspec.structs.asdict(event)
            values |= {name: _time(values[name]) for name in ("time", "instant")}
            yield {**values, "position": position}

    def beside(self, table: str, border: int) -> Iterator[LogRow]:
        """The rows of ``table`` that belong to these events."""
        last: dict[UUID, int] = {}
        for event, _ in self._events(border):
            last[event.table_id] = event.version
        with self._listed() as runs:
            for listed in runs:
                for row in run_rows.read(self._storage, listed, self._storage.run(listed), table):
                    if row[1] <= last.get(row[0], 0):
                        yield _values(table, row)

    def _events(self, border: int) -> Iterator[tuple[StoredEvent, int]]:
        ends = ArchiveEnds()
        with self._listed() as runs:
            for listed in runs:
                run = self._storage.run(listed)
                if run.begin >= border:
                    return
                for event, position in self._events_of_run(listed, run, ends):
                    if (event.transaction_id or 0) < border:
                        yield event, position
                ends.add(run)

    def _events_of_run(
        self, listed: ListedRun, run: ArchiveRun, ends: ArchiveEnds
    ) -> Iterator[tuple[StoredEvent, int]]:
        positions: deque[int] = deque()

        def source(table: str) -> Iterator[Row]:
            if table in ("event_entry", "write_stat", "deleted_file"):
                return
            for row in run_rows.read(self._storage, listed, run, table):
                if table == "event":
                    positions.append(row[_POSITION])
                yield row

        of_run = run_rows.RunRows(source, ends, lambda _, __: None, lambda _, __: None)
        for page in of_run.pages():
            for event in page:
                yield event, positions.popleft()

    def outcomes(self, before: Mapping[UUID, int]) -> Iterator[LogRow]:
        """The outcomes whose numbers are lower than the one that is given for their chain."""
        for row, _, answer in self._answers(before):
            values = _values("outcome", row)
            del values["checkpoint"]
            yield {**values, "hash": answer.hash}

    def refusals(self, before: Mapping[UUID, int]) -> Iterator[LogRow]:
        """The refusals of these outcomes."""
        for _, refusal, answer in self._answers(before):
            if refusal is not None:
                values = {**_values("refusal", refusal), "request_id": answer.request_id}
                yield {name: value for name, value in values.items() if name not in ("chain_id", "number")}

    def _answers(self, before: Mapping[UUID, int]) -> Iterator[tuple[Row, Row | None, StoredAnswer]]:
        heads: dict[UUID, ChainHead] = {}
        with self._listed() as runs:
            for listed in runs:
                run = self._storage.run(listed)
                refusals = run_rows.read(self._storage, listed, run, "refusal")
                refusal = next(refusals, None)
                for row in run_rows.read(self._storage, listed, run, "outcome"):
                    own = None
                    if refusal is not None and refusal[:_PLACE] == row[:_PLACE]:
                        own, refusal = refusal, next(refusals, None)
                    answer = run_rows.answer_of(row, own, heads.get(row[0], START))
                    heads[answer.chain_id] = ChainHead(answer.number, answer.hash)
                    if answer.number < before.get(answer.chain_id, 0):
                        yield row, own, answer

    @contextmanager
    def _listed(self) -> Iterator[Sequence[ListedRun]]:
        """The runs as they are listed now, for a block that reads them."""
        runs: Sequence[ListedRun] = ()
        try:
            runs = self._storage.manifest().runs
            yield runs
        except ArchiveDamaged as exc:
            if self._is_merged(runs):
                raise errors.ConfigurationError(
                    "runs of the archive were merged while they were read; run this command again"
                ) from exc
            raise errors.ConfigurationError(f"the archive is damaged: {exc}; run archive verify") from exc

    def _is_merged(self, runs: Sequence[ListedRun]) -> bool:
        """Whether some of the runs are not listed any more."""
        try:
            listed = self._storage.manifest().runs
        except ArchiveDamaged:
            return False
        return any(run not in listed for run in runs)


def _values(table: str, row: Row) -> dict[str, object]:
    return {
        name: _time(value) if form is ColumnForm.TIME else value
        for (name, form), value in zip(COLUMNS[table].items(), row, strict=True)
    }


def _time(value: int | None) -> datetime | None:
    return None if value is None else to_datetime(Micros(value))
