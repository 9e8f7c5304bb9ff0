"""Two loads into one table at once: the commit that loses is repeated, and nothing is loaded twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

import chronolake
from chronolake_spark.write import shuffles
from tests.spark.prices import SPARK_ENGINE, Ingest, rows_of

pytestmark = SPARK_ENGINE


@pytest.fixture
def overtake(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Lets another write complete when the next write has begun and read the table."""
    prepare = shuffles.by_file_group

    def next_write(other: Callable[[], object]) -> None:
        def after_other(*args: Any, **options: Any) -> DataFrame:
            monkeypatch.setattr(shuffles, "by_file_group", prepare)
            other()
            return prepare(*args, **options)

        monkeypatch.setattr(shuffles, "by_file_group", after_other)

    return next_write


def test_the_second_of_two_loads_repeats_its_commit_without_files_that_the_first_has_loaded(
    ingest: Ingest,
    run: Callable[..., int],
    table: Callable[[], chronolake.Table],
    tmp_path: Path,
    overtake: Callable[[Callable[[], object]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "in" / "1.csv").write_text("id,n\n1,10\n2,20\n")
    ingest("--key", "id", "--buckets", "1")
    (tmp_path / "in" / "2.csv").write_text("id,n\n1,11\n3,30\n")
    overtake(lambda: table().upsert([{"id": 2, "n": 21}]))
    ingest("--key", "id")
    assert [row[0] for row in rows_of(table())] == [1, 2, 3]
    [last] = [i for i in table().instants() if "conflicts.retries" in i.extra_metadata]
    assert (last.extra_metadata["conflicts.retries"], last.summary and last.summary.inserts) == ("1", 1)

    def load_both() -> None:
        assert run("--key", "id") == 0
        (tmp_path / "in" / "4.csv").write_text("id,n\n1,13\n")
        assert run("--key", "id") == 0
        capsys.readouterr()

    (tmp_path / "in" / "3.csv").write_text("id,n\n1,12\n")
    overtake(load_both)
    result = ingest("--key", "id")
    assert result["commits"] == []
    assert rows_of(table())[0] == (1, 13)
