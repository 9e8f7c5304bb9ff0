"""An archiver rests in proportion to its work, and its archive is the one without rests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chronolake_metastore.archive import writing
from chronolake_metastore.archive.pace import REST_SECONDS_MAX, Pace
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.settings import Settings
from tests.store import archiving, tampering


class Clock:
    """A clock that a test moves, and on which rests take their time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rests: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds

    def work(self) -> float:
        """The time; each look at it comes after a hundredth of a second of work."""
        self.now += 0.01
        return self.now


@pytest.mark.parametrize(
    ("share", "worked", "rests"),
    [(0.25, 0.1, [0.3]), (0.25, 0.001, []), (0.25, 60, [REST_SECONDS_MAX]), (1, 5, [])],
)
def test_rests_are_in_proportion_to_the_work(share: float, worked: float, rests: list[float]) -> None:
    clock = Clock()
    pace = Pace(share, clock.sleep, lambda: clock.now)
    clock.now += worked
    pace.rest()
    pace.rest()
    assert clock.rests == pytest.approx(rests)


def test_an_archiver_rests_while_it_copies_merges_and_verifies(dsn: str, tmp_path: Path) -> None:
    tampering.make(dsn)
    archiving.write(dsn, archiving.local(tmp_path / "fast"), 1)
    clock = Clock()
    storage = ArchiveStorage(archiving.local(tmp_path / "paced"))
    settings = Settings(dsn=dsn, role=archiving.ROLE)
    asyncio.run(writing.write(settings, storage, events_max=1, pace=Pace(0.5, clock.sleep, clock.work)))

    paced, fast = (archiving.content(archiving.local(tmp_path / name)) for name in ("paced", "fast"))
    assert paced == fast
    assert len(clock.rests) > len(storage.manifest().runs)
