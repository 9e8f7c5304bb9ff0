from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from chronolake_hudi import timeline_files
from chronolake_hudi.timeline_files import Layout, TimelineFile
from chronolake_model.vocabulary import Action, State
from tests.hudi import stored_tables

times = st.from_regex(r"[0-9]{17}", fullmatch=True)
requested = st.builds(
    TimelineFile,
    times,
    st.sampled_from(Action).filter(lambda a: a is not Action.SAVEPOINT),
    st.just(State.REQUESTED),
)
inflight = st.builds(TimelineFile, times, st.sampled_from(Action), st.just(State.INFLIGHT))
completed = st.builds(
    TimelineFile,
    times,
    st.sampled_from(Action).map(timeline_files.completed_action),
    st.just(State.COMPLETED),
    times,
)


@given(requested | inflight | completed)
def test_a_name_gives_back_its_parts(file: TimelineFile) -> None:
    assert timeline_files.parse_name(timeline_files.name_of(file)) == file


@given(st.text("0123456789._acdeimnopqrstu") | (requested | inflight | completed).map(timeline_files.name_of))
def test_a_name_that_is_parsed_is_the_name_of_its_parts(name: str) -> None:
    try:
        file = timeline_files.parse_name(name)
    except ValueError:
        return
    assert timeline_files.name_of(file) == name


@pytest.mark.parametrize(
    ("action", "name"),
    [
        (Action.COMMIT, "20260101000000000_20260101000000005.commit"),
        (Action.COMPACTION, "20260101000000000_20260101000000005.commit"),
        (Action.LOGCOMPACTION, "20260101000000000_20260101000000005.deltacommit"),
        (Action.CLUSTERING, "20260101000000000_20260101000000005.replacecommit"),
        (Action.CLEAN, "20260101000000000_20260101000000005.clean"),
    ],
)
def test_completed_files_are_named_as_hudi_names_them(action: Action, name: str) -> None:
    assert timeline_files.completed_name("20260101000000000", "20260101000000005", action) == name


@pytest.mark.parametrize(
    ("name", "layout", "file"),
    [
        ("20260101000000000.inflight", Layout.TWO, (Action.COMMIT, State.INFLIGHT)),
        ("20260101000000000.inflight", Layout.ONE, (Action.COMMIT, State.INFLIGHT)),
        ("20260101000000000.deltacommit.inflight", Layout.TWO, (Action.DELTACOMMIT, State.INFLIGHT)),
        ("20260101000000000.clustering.requested", Layout.TWO, (Action.CLUSTERING, State.REQUESTED)),
        ("20260101000000000.commit", Layout.ONE, (Action.COMMIT, State.COMPLETED)),
        ("20260101000000.replacecommit", Layout.ONE, (Action.REPLACECOMMIT, State.COMPLETED)),
    ],
)
def test_names_of_both_layouts_are_parsed(name: str, layout: Layout, file: tuple[Action, State]) -> None:
    parsed = timeline_files.parse_name(name, layout)

    assert (parsed.action, parsed.state) == file


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("hoodie.properties", Layout.TWO),
        ("20260101000000000.commit", Layout.TWO),
        ("20260101000000000_20260101000000005.commit", Layout.ONE),
        ("20260101000000000_20260101000000005.compaction", Layout.TWO),
        ("20260101000000000.compaction", Layout.ONE),
        ("20260101000000000.commit.inflight", Layout.TWO),
        ("20260101000000000.requested", Layout.TWO),
        ("20260101000000000.savepoint.requested", Layout.TWO),
        ("20260101000000000.commit.requested.tmp", Layout.TWO),
        (".20260101000000000.commit.requested.crc", Layout.TWO),
        ("20260101000000000000.commit.requested", Layout.TWO),
        ("20260101000000000.write.requested", Layout.TWO),
        ("history", Layout.TWO),
    ],
)
def test_other_names_are_refused(name: str, layout: Layout) -> None:
    with pytest.raises(ValueError, match=f"'{name}'"):
        timeline_files.parse_name(name, layout)


def test_an_instant_that_was_rolled_back_has_no_file() -> None:
    with pytest.raises(ValueError, match="rolled back"):
        timeline_files.name_of(TimelineFile("20260101000000000", Action.COMMIT, State.ROLLED_BACK))


@pytest.mark.parametrize(("layout", "path"), stored_tables.timelines())
def test_hudis_own_names_are_parsed(layout: Layout, path: Path) -> None:
    file = timeline_files.parse_name(path.name, layout)

    assert path.name.startswith(file.requested_time)
    assert (file.completion_time is not None) == (layout is Layout.TWO and file.state is State.COMPLETED)
