"""Archives of random histories: in pieces, at random moments, they have the rows of one written at once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import rule
from typing_extensions import override

from tests.store import archiving, machines
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

    @override
    def teardown(self) -> None:
        dsn = self.settings.dsn
        archiving.write(dsn, self.pieces)
        archiving.write(dsn, self.at_once)
        assert archiving.content(self.pieces) == archiving.content(self.at_once)
        for files in (self.pieces, self.at_once):
            assert archiving.verify(files, dsn).findings == []
        self.folder.cleanup()
        super().teardown()

    @rule(events_max=st.integers(1, 30))
    def archive(self, events_max: int) -> None:
        archiving.write(self.settings.dsn, self.pieces, events_max)


def test_an_archive_in_random_pieces_is_that_of_the_whole_history(new_database: Callable[[], str]) -> None:
    machines.play(machines.on_real_database(ArchivedHistory, new_database), STEPS, EXAMPLES, derandomize=True)
