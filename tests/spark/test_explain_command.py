"""``chronolake explain``: the plan of a read at the command line, without a JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chronolake
from chronolake.cli import main as command_line
from chronolake_model.tables import BucketIndex, Field
from chronolake_model.vocabulary import IndexType, TableType
from tests.spark.hand_written import base, commit, log


def test_a_read_is_explained_for_people_and_as_json(
    shared_server_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("explained", if_not_exists=True)
        table = client.create_table(
            "explained.t",
            base_path=str(tmp_path / "table"),
            schema=[Field("id", "string"), Field("day", "string")],
            record_key_fields=["id"],
            partition_fields=["day"],
            index=BucketIndex(IndexType.SIMPLE),
            type=TableType.MERGE_ON_READ,
        )
        first = commit(table, {("day=1", "a-0"): base("k1"), ("day=2", "b-0"): base("k2")})
        commit(table, {("day=1", "a-0"): log("k1")})

    def shown(*options: str, code: int = 0) -> str:
        assert command_line.run(["explain", "explained.t", "--url", shared_server_url, *options]) == code
        output = capsys.readouterr()
        return output.err if code else output.out

    text = shown()
    assert "read explained.t (merge_on_read, index: simple)" in text
    assert "touches: 2 file groups, 2 partitions (day=1, day=2), 2 base files of" in text
    assert "merged by Arrow in the executors, because of the log files: 1 file group" in text
    before = shown("--filter", "day = '1' and id > 'a'", "--as-of", str(first.completion_time))
    assert "filter:  day = '1' and id > 'a'" in before
    assert "left out, by their partition: 1 file group" in before
    assert "log file" not in before.partition("columns:")[2]
    fields = json.loads(shown("--view", "read_optimized", "--json"))
    assert fields["touched"]["log_files"]["count"] == 0
    assert [part["what"] for part in fields["parts"]] == ["read by Spark's own Parquet reader"]
    assert "price" in shown("--filter", "price > 1", code=1)
    assert "Invalid value for --filter / --where: " in shown("--filter", "price >", code=2)
