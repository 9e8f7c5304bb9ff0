"""Adoptions and releases that are killed at each request and each change on the disk, and repeated.

After each repeat the table has every commit of the storage, or the repeat is refused and says what to do.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import chronolake
from chronolake.hudi import stored
from chronolake_hudi import java_properties, metadata, properties
from chronolake_hudi.metadata import CommitMetadata, HudiWriteStat
from chronolake_hudi.properties import TableVersion
from chronolake_hudi.timeline_files import Layout
from chronolake_model.vocabulary import State
from chronolake_storage.opening import open_files
from tests.hudi.dying_adopter import DONE, KILLED, Adopters, Request
from tests.hudi.stored_tables import rows_by_hudi_rs, unpacked

Between = Callable[[Path], None]
"""Actions of Hudi between the kill and the repeat."""
NEVER = 1_000_000
"""A place at which no run arrives."""
GIVEN_BACK = "is dropped: stop the writers, and adopt it again with --reuse-base-path"
LATE = "which the guard does not stop because it was running before"


@pytest.fixture(scope="module")
def adopters() -> Iterator[Adopters]:
    """The process that adopts."""
    with Adopters() as adopters:
        yield adopters


def commits_in_storage(path: Path, layout: Layout) -> set[str]:
    """The requested times of the completed writes in Hudi's timeline."""
    text = (path / properties.PATH).read_bytes()
    version = TableVersion.SIX if layout is Layout.ONE else TableVersion.EIGHT
    changed = {"hoodie.table.version": str(version.value), "hoodie.timeline.layout.version": str(layout.value)}
    former = java_properties.encode(java_properties.decode(text, properties.PATH) | changed, "test")
    instants = stored.read(open_files(str(path)), former).instants
    return {instant.requested_time for instant in instants if instant.is_completed_write}


def last_commit_aside(path: Path, folder: Path) -> Between:
    """Take the last commit out of a table; the answer brings it back, as if Hudi committed it then."""
    folder_of_timeline = ".hoodie/timeline" if (path / ".hoodie/timeline").exists() else ".hoodie"
    completed = [
        file for file in (path / folder_of_timeline).iterdir() if file.suffix in (".commit", ".deltacommit")
    ]
    time = max(completed, key=lambda file: file.name).name[:17]
    files = [file for file in path.rglob(f"*{time}*") if "/metadata/" not in str(file)]
    for file in files:
        aside = folder / file.relative_to(path)
        aside.parent.mkdir(parents=True, exist_ok=True)
        file.rename(aside)

    def bring_back(_: Path) -> None:
        shutil.copytree(folder, path, dirs_exist_ok=True)

    return bring_back


def nothing_between(path: Path, _: Path) -> Between:
    """Hudi does nothing."""
    return lambda _: None


def pending_completes(path: Path, _: Path) -> Between:
    """Hudi completes the commit that was pending, unless its files are gone."""
    [inflight] = (path / ".hoodie/timeline").glob("*5675.inflight")
    time = inflight.name[:17]

    def complete(path: Path) -> None:
        files = sorted(path.rglob(f"*_{time}.parquet"))
        stats = [
            HudiWriteStat(
                file_id=file.name.partition("_")[0],
                path=str(file.relative_to(path)),
                file_size_in_bytes=file.stat().st_size,
                num_writes=1,
            )
            for file in files
        ]
        if inflight.exists() and stats:
            commit = CommitMetadata(partition_to_write_stats={"": stats}, operation_type="UPSERT")
            (path / f".hoodie/timeline/{time}_20261122193516999.commit").write_bytes(metadata.encode(commit))

    return complete


def check(client: chronolake.Client, adopters: Adopters, repeat: Request, layout: Layout) -> None:
    """Repeat an adoption that was killed. If it is given back, follow the advice."""
    outcome = adopters.outcome(repeat)
    if GIVEN_BACK in outcome:
        text = (Path(repeat.folder) / properties.PATH).read_text()
        assert properties.TABLE_ID_KEY not in text
        again = Request(repeat.url, repeat.table, repeat.folder, NEVER, reuse_base_path=True)
        outcome = adopters.outcome(again)
    if LATE in outcome:
        return
    assert outcome == DONE
    table = client.table(repeat.table)
    known = {instant.requested_time for instant in table.instants(state=State.COMPLETED)}
    assert commits_in_storage(Path(repeat.folder), layout) <= known
    publication = table.publication()
    assert publication.foreign_files == []
    # While the lease of a publisher that was killed runs, others wait.
    assert publication.lag_versions == 0 or publication.publisher is not None


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "layout", "between"),
    [
        ("cow9", Layout.TWO, last_commit_aside),
        pytest.param("mor9", Layout.TWO, last_commit_aside, marks=pytest.mark.slow),
        pytest.param("cow6", Layout.ONE, last_commit_aside, marks=pytest.mark.slow),
        pytest.param("pending8", Layout.TWO, nothing_between, marks=pytest.mark.slow),
        ("pending8", Layout.TWO, pending_completes),
    ],
)
def test_after_a_killed_adoption_every_commit_is_known_or_the_repeat_is_refused(
    client: chronolake.Client,
    adopters: Adopters,
    namespace: str,
    tmp_path: Path,
    name: str,
    layout: Layout,
    between: Callable[[Path, Path], Between],
    every: int,
) -> None:
    for kill_at in itertools.count(1, every):
        folder = tmp_path / str(kill_at)
        path = unpacked(name, folder)
        commit = between(path, folder / "aside")
        request = Request(client.url, f"{namespace}.{name}_{kill_at}", str(path), kill_at)
        outcome = adopters.outcome(request)
        if outcome != KILLED:
            assert outcome == DONE
            break
        commit(path)
        check(client, adopters, Request(request.url, request.table, request.folder, NEVER), layout)
    assert kill_at > 8


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_after_a_killed_release_hudi_has_the_table_or_the_repeat_says_what_to_do(
    client: chronolake.Client, adopters: Adopters, namespace: str, tmp_path: Path, every: int
) -> None:
    for kill_at in itertools.count(1, every):
        path = unpacked("cow9", tmp_path / str(kill_at))
        rows = rows_by_hudi_rs(path)
        name = f"{namespace}.t_{kill_at}"
        assert adopters.outcome(Request(client.url, name, str(path), NEVER)) == DONE
        outcome = adopters.outcome(Request(client.url, name, str(path), kill_at, releases=True))
        if outcome != KILLED:
            assert outcome == DONE
            break
        outcome = adopters.outcome(Request(client.url, name, str(path), NEVER, releases=True))
        is_guarded = properties.TABLE_ID_KEY in (path / properties.PATH).read_text()
        assert (outcome == DONE) is not is_guarded
        assert outcome == DONE or "take the lines" in outcome or "wait until the publication" in outcome
        assert rows_by_hudi_rs(path) == rows
    assert kill_at > 4
