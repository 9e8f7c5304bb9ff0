"""Random histories whose old answers leave PostgreSQL: each request still gets its first answer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from typing_extensions import override

from chronolake_metastore.archive.answers import AnswersOfArchive
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.domain.proof import ProofFinding
from chronolake_metastore.proof import verification
from tests.store import archiving, machines
from tests.store.test_timeline_machine import Promises

EXAMPLES = 4
STEPS = 12
ERAS_MAX = 8
OF_ARCHIVE = "archived-era-"
"""How the keys begin under which archived eras are recorded."""


class HistoryInEras(Promises):
    """Eras begin between the commands, and old answers leave."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.archive = archiving.local(Path(self.folder.name))
        self.eras = 1

    @override
    def teardown(self) -> None:
        assert self.verify() == []
        self.folder.cleanup()
        super().teardown()

    @precondition(lambda self: self.eras < ERAS_MAX)
    @rule()
    def begin_an_era(self) -> None:
        self.eras += 1
        self.sql(
            "SELECT chronolake.begin_era(last.era + 1) FROM (SELECT max(era) AS era FROM chronolake.era) last"
        )

    @rule(events_max=st.integers(1, 30))
    def write_the_archive(self, events_max: int) -> None:
        archiving.write(self.settings.dsn, self.archive, events_max)

    @precondition(lambda self: self.eras < ERAS_MAX)
    @rule()
    def drop_old_answers(self) -> None:
        archiving.write(self.settings.dsn, self.archive)
        self.eras += 1
        assert archiving.drop(self.settings.dsn, self.archive).kept == 1

    @override
    def verify(self) -> list[ProofFinding]:
        archived = AnswersOfArchive(ArchiveStorage(self.archive))
        return self.runner.run(verification.verify(self.settings, archived=archived)).findings

    @override
    @invariant()
    def every_outcome_is_known_and_every_refusal_recorded_once(self) -> None:
        rows = self.sql("SELECT chain_id, number, request_id, code, result FROM chronolake.outcome")
        recorded = {row[:2]: (row[2], row[3], bytes(row[4])) for row in rows}
        refused = {request_id for (request_id,) in self.sql("SELECT request_id FROM chronolake.refusal")}
        content = archiving.content(self.archive)
        for row in content["outcome"]:
            outcome = row[2], row[6], row[7]
            assert recorded.setdefault(row[:2], outcome) == outcome
        refused |= {recorded[row[:2]][0] for row in content["refusal"]}
        assert {key: rest for key, *rest in recorded.values() if not key.startswith(OF_ARCHIVE)} == {
            request_id: list(outcome) for request_id, (_, outcome) in self.outcomes.items()
        }
        assert refused == set(self.refused)


def test_each_request_gets_its_first_answer_wherever_it_lies(new_database: Callable[[], str]) -> None:
    machines.play(machines.on_real_database(HistoryInEras, new_database), STEPS, EXAMPLES, derandomize=True)
