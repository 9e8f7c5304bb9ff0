"""The oracle of the soak: it knows the value of each key at each time, by acknowledgements and the timeline."""

from __future__ import annotations

from typing import Final

import chronolake
from benchmarks.soak_batches import VERSION, WRITERS, Batch, Entry, Journal, Soak, batch
from benchmarks.soak_store import data_files
from chronolake_model.files import FileSlice
from chronolake_model.instants import Instant
from chronolake_model.vocabulary import Operation, State, TimeOrder
from tests.spark import hudi_reader

SERVICES: Final = (Operation.COMPACT, Operation.LOG_COMPACT, Operation.CLUSTER)
_EXAMPLES = 5


class Oracle:
    """Follows the timeline of the table, and compares reads with what the writers were told."""

    def __init__(self, soak: Soak, table: chronolake.Table) -> None:
        self._soak = soak
        self._table = table
        self._instants: list[Instant] = []
        """The instants of batches, by completion time."""
        self._batches: list[Batch] = []
        self.faults: list[str] = []

    def completion_times(self) -> list[str]:
        """The completion times of all batches so far."""
        after = self._instants[-1].completion_time if self._instants else None
        later = self._table.instants(
            state=State.COMPLETED, completed_from=after, order_by=TimeOrder.COMPLETION_TIME
        )
        new = [instant for instant in later if VERSION in instant.extra_metadata]
        self._instants += new
        self._batches += [batch(self._soak, int(instant.extra_metadata[VERSION])) for instant in new]
        return [instant.completion_time or "" for instant in self._instants]

    def expected(self, as_of: str) -> dict[int, int]:
        """The version of each key as of a completion time."""
        self.completion_times()
        newest: dict[int, tuple[int, bool]] = {}
        for instant, rows in zip(self._instants, self._batches, strict=True):
            if (instant.completion_time or "") <= as_of:
                newest |= {
                    key: max(newest.get(key, (0, False)), (rows.version, is_deleted))
                    for keys, is_deleted in ((rows.upserted, False), (rows.deleted, True))
                    for key in keys
                }
        return {key: version for key, (version, is_deleted) in newest.items() if not is_deleted}

    def compare(self, as_of: str, slices: list[FileSlice], what: str) -> None:
        """Compare the rows of a snapshot with those that are expected."""
        columns = hudi_reader.rows_of_slices(self._table, slices).select(["id", "version"]).to_pydict()
        rows = dict(zip(columns["id"], columns["version"], strict=True))
        expected = self.expected(as_of)
        if len(rows) != len(columns["id"]):
            self._fault(f"{what} as of {as_of}: {len(columns['id']) - len(rows)} keys are there twice")
        wrong = [key for key in rows.keys() | expected.keys() if rows.get(key) != expected.get(key)]
        if wrong:
            shown = [(key, rows.get(key), expected.get(key)) for key in sorted(wrong)[:_EXAMPLES]]
            self._fault(f"{what} as of {as_of}: {len(wrong)} wrong (key, read, expected): {shown}")

    def check_acknowledged(self) -> None:
        """Each acknowledged batch is on the timeline, with the completion time that its writer was told."""
        self.completion_times()
        completed = {int(each.extra_metadata[VERSION]): each.completion_time for each in self._instants}
        for entry in self.entries("acknowledged"):
            if completed.get(entry.version) != entry.completion_time:
                self._fault(f"the acknowledged batch {entry.version} of {entry.completion_time} is lost")

    def entries(self, state: str) -> list[Entry]:
        """Lines of the journals of all writers."""
        return [
            entry
            for writer in WRITERS
            for entry in Journal(self._soak, writer).entries()
            if entry.state == state
        ]

    def refused_by_services(self) -> list[str]:
        """The refusals of writers because of a table service."""
        return [
            f"{refused.message} ({winner.operation})"
            for refused in self.entries("refused")
            if (winner := self._table.instant(refused.winner)).operation in SERVICES
        ]

    def unaccounted_files(self) -> list[str]:
        """Data files in the folder of the table that the metastore does not publish."""
        published = {
            path for part in self._table.published_batches() for path in part.column("path").to_pylist()
        }
        return sorted(set(data_files(self._table)) - published)

    def _fault(self, text: str) -> None:
        print(f"FAULT: {text}", flush=True)
        self.faults.append(text)
