"""The protocols of deletions: every reported file was deleted, wherever the driver stops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from chronolake_model.markers import DeletedFile
from chronolake_model.vocabulary import Action
from chronolake_storage import deletions
from chronolake_storage.deletions import (
    DeleteFiles,
    DeleteMarkers,
    DeletionResult,
    FindFiles,
    ListFiles,
    ReportFiles,
    Source,
    sources_of,
)
from chronolake_storage.protocols import Protocol, Step

FILES = [DeletedFile("", f"f{number}") for number in range(6)]
Pages = dict[Source, list[list[DeletedFile]]]


class World:
    """A storage and a metastore in memory, which perform steps."""

    def __init__(self, pages: Pages, stored: set[DeletedFile], refused: set[DeletedFile]) -> None:
        self.stored = stored
        self.reports: list[list[DeletedFile]] = []
        self.kept_markers = {file for page in pages.get(Source.DIRECT_MARKERS, []) for file in page}
        self._pages: dict[Source, Iterator[list[DeletedFile]]] = {
            source: iter(pages.get(source, [])) for source in Source
        }
        self._refused = refused

    @property
    def reported(self) -> set[DeletedFile]:
        return {file for report in self.reports for file in report}

    def drive(self, protocol: Protocol, steps_max: int = 1_000) -> None:
        answer = None
        for _ in range(steps_max):
            try:
                step = protocol.send(answer)
            except StopIteration:
                return
            answer = self.perform(step)

    def perform(self, step: Step[Any]) -> Any:
        match step:
            case ListFiles(source):
                return next(self._pages[source], None)
            case FindFiles(files):
                return [file for file in files if file in self.stored]
            case DeleteFiles(files):
                self.stored -= set(files) - self._refused
                return {file.path: "refused" for file in files if file in self._refused}
            case ReportFiles(files):
                self.reports.append(list(files))
            case DeleteMarkers(files):
                self.kept_markers -= set(files)
            case _:
                raise AssertionError(f"there is no step {step}")
        return None


PAGES = st.lists(st.lists(st.sampled_from(FILES), unique=True), max_size=3)
SOME = st.sets(st.sampled_from(FILES))


@given(plan=PAGES, marked=PAGES, refused=SOME, published=SOME, steps=st.integers(0, 30))
def test_reported_files_are_deleted_and_published_files_stay(
    plan: list[list[DeletedFile]],
    marked: list[list[DeletedFile]],
    refused: set[DeletedFile],
    published: set[DeletedFile],
    steps: int,
) -> None:
    world = World({Source.PLAN: plan, Source.MARKERS: marked}, set(FILES), refused)

    world.drive(deletions.delete_files([Source.PLAN, Source.MARKERS], DeletionResult(), published), steps)

    assert not world.reported & world.stored
    assert published <= world.stored


@given(plan=PAGES, marked=PAGES, refused=SOME)
def test_at_the_end_each_listed_file_is_deleted_or_failed(
    plan: list[list[DeletedFile]], marked: list[list[DeletedFile]], refused: set[DeletedFile]
) -> None:
    world, result = World({Source.PLAN: plan, Source.MARKERS: marked}, set(FILES), refused), DeletionResult()
    listed = {file for page in [*plan, *marked] for file in page}

    world.drive(deletions.delete_files([Source.PLAN, Source.MARKERS], result))

    assert set(result.deleted) == world.reported == listed - refused
    assert result.failures.keys() == {file.path for file in listed & refused}
    assert bool(result.first_failure) is bool(listed & refused)


@given(deleted=PAGES, marked=PAGES, stored=SOME, refused=SOME)
def test_a_sweep_deletes_late_files_and_reports_none_only_when_there_are_none(
    deleted: list[list[DeletedFile]],
    marked: list[list[DeletedFile]],
    stored: set[DeletedFile],
    refused: set[DeletedFile],
) -> None:
    world = World({Source.DELETED: deleted, Source.DIRECT_MARKERS: marked}, set(stored), refused)
    late = {file for page in deleted for file in page} & stored
    in_storage_since = {file for page in marked for file in page}

    world.drive(deletions.sweep(DeletionResult(), has_direct_markers=True))

    assert world.reported == (late | in_storage_since) - refused
    assert world.kept_markers == in_storage_since & refused
    assert ([] in world.reports) is not bool(late | in_storage_since)


def test_files_are_deleted_and_reported_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletions, "FILES_AT_ONCE", 4)
    world = World({Source.PLAN: [FILES]}, set(FILES), set())

    world.drive(deletions.delete_files([Source.PLAN], DeletionResult()))

    assert world.reports == [FILES[:4], FILES[4:]]


@pytest.mark.parametrize(
    ("action", "is_planned", "by_markers", "direct_markers", "expected"),
    [
        (Action.CLEAN, True, False, False, [Source.PLAN]),
        (Action.CLEAN, False, False, False, [Source.MARKERS]),
        (Action.ROLLBACK, False, False, True, [Source.PLAN]),
        (Action.ROLLBACK, False, True, False, [Source.MARKERS]),
        (Action.ROLLBACK, False, True, True, [Source.MARKERS, Source.DIRECT_MARKERS]),
        (Action.COMMIT, False, False, True, [Source.MARKERS, Source.DIRECT_MARKERS]),
    ],
)
def test_the_action_decides_where_files_are_listed(
    action: Action, is_planned: bool, by_markers: bool, direct_markers: bool, expected: Sequence[Source]
) -> None:
    assert expected == sources_of(
        action, is_planned=is_planned, by_markers=by_markers, direct_markers=direct_markers
    )
