"""Archives of random histories, in pieces, at random moments.

They have the rows of one written at once, and their reader gives what PostgreSQL gives.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from typing_extensions import override

from chronolake_metastore.archive import reading
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.domain import archives
from tests.store import archive_reads, archiving, machines
from tests.store.archive_reads import reader_of
from tests.store.archiving import local
from tests.store.test_timeline_machine import Promises

EXAMPLES = 3
STEPS = 12


class ArchivedHistory(Promises):
    """A history with runs of the archive between its commands."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.pieces = local(Path(self.folder.name, "pieces"))
        self.at_once = local(Path(self.folder.name, "at once"))
        self.borders: list[int] = []

    @override
    def teardown(self) -> None:
        dsn = self.settings.dsn
        archiving.write(dsn, self.pieces)
        archiving.write(dsn, self.at_once)
        assert archiving.content(self.pieces) == archiving.content(self.at_once)
        for files in (self.pieces, self.at_once):
            assert archiving.verify(files, dsn).findings == []
            archive_reads.compare(dsn, reader_of(files), len(self.borders), self.borders)
        self.folder.cleanup()
        super().teardown()

    @rule(events_max=st.integers(1, 30))
    def archive(self, events_max: int) -> None:
        archiving.write(self.settings.dsn, self.pieces, events_max)
        self.borders.append(ArchiveStorage(self.pieces).manifest().end)


def test_an_archive_in_random_pieces_is_that_of_the_whole_history(
    new_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "CHECKPOINT_EVERY", 4)
    monkeypatch.setattr(reading, "WINDOWS", (7, 1))
    machines.play(machines.on_real_database(ArchivedHistory, new_database), STEPS, EXAMPLES, derandomize=True)
