"""Proving the lists of events: the rows beside each event against what its payload says of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

import msgspec

from chronolake_metastore.domain.changes import ListKey
from chronolake_metastore.domain.events import Event
from chronolake_metastore.domain.lists import Digest, ListEntry, Sealed, entries_of
from chronolake_metastore.domain.logs import lists_of
from chronolake_metastore.domain.proof import NOTHING, Check, ProofFinding
from chronolake_metastore.store import event_lists
from chronolake_metastore.store.event_lists import StoredEntry
from chronolake_metastore.store.postgres.transaction import Transaction

ReportFinding = Callable[[ProofFinding, UUID | None], None]
"""Takes a finding on a table's log."""


class _Proof:
    """One list while its rows are compared."""

    def __init__(self, of: ListKey, sealed: Sealed[Any]) -> None:
        self._of = of
        self._sealed = sealed
        self._first = entries_of(sealed.first)
        self._digest = Digest()

    def add_row(self, stored: StoredEntry) -> Iterator[tuple[str, str, str]]:
        """The finding on the next row: its kind, the expected value, the stored value."""
        number = self._digest.files
        if (stored.ordinal, stored.of.version) != (number, self._of.version):
            expected, actual = f"{number}, {self._of.version}", f"{stored.ordinal}, {stored.of.version}"
            yield f"entry {stored.ordinal} of {self._of.name}: ordinal and version", expected, actual
        if number < len(self._first) and stored.entry != self._first[number]:
            what = f"entry {stored.ordinal} of {self._of.name}"
            yield what, _text(self._first[number]), _text(stored.entry)
        self._digest.add(stored.entry)

    def close(self) -> Iterator[tuple[str, str, str]]:
        """The findings after the last row."""
        count = self._digest.files
        if count != self._sealed.count:
            yield f"the entries of {self._of.name}", f"{self._sealed.count} entries", f"{count} entries"
        elif self._digest.hexdigest() != self._sealed.digest:
            yield f"the digest over {self._of.name}", self._sealed.digest, self._digest.hexdigest()


async def check(
    entries: Callable[[Sequence[ListKey]], AsyncIterator[StoredEntry]],
    events: Sequence[Event],
    name_of: Callable[[UUID], str],
    report_finding: ReportFinding,
) -> None:
    """Compare the rows of the lists of ``events`` with the events."""
    proofs = {(of.table_id, of.instant, of.name): _Proof(of, sealed) for of, sealed in _lists(events)}
    if not proofs:
        return
    of_version = {(of.table_id, of.instant, of.name): of.version for of, _ in _lists(events)}

    def note(key: tuple[UUID, Any, Any], difference: tuple[str, str, str]) -> None:
        what, expected, seen = difference
        report_finding(
            ProofFinding(Check.LISTS, name_of(key[0]), of_version[key], what, expected, seen), key[0]
        )

    async for stored in entries([of for of, _ in _lists(events)]):
        key = stored.of.table_id, stored.of.instant, stored.of.name
        for difference in proofs[key].add_row(stored):
            note(key, difference)
    for key, proof in proofs.items():
        for difference in proof.close():
            note(key, difference)


async def find_orphans(
    tx: Transaction, table_id: UUID | None, limit: int, name_of: Callable[[UUID], str]
) -> list[ProofFinding]:
    """The first ``limit`` lists that no event names."""
    return [
        ProofFinding(
            Check.LISTS, name_of(of_table), version, f"{name} that no event names", NOTHING, f"{count} entries"
        )
        for of_table, version, name, count in await event_lists.without_event(tx, table_id, limit)
    ]


def _lists(events: Sequence[Event]) -> Iterator[tuple[ListKey, Sealed[Any]]]:
    for event in events:
        for name, sealed in lists_of(event.payload).items():
            if event.instant is not None:
                yield ListKey(event.table_id, event.instant, event.version, name), sealed


def _text(entry: ListEntry) -> str:
    return msgspec.json.encode(entry).decode()[:200]
