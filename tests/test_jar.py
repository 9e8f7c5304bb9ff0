"""The jar of Spark's SQL catalog: what it uses of Spark, that builds agree, and that the wheel has it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from tools import check_jar, make_jar

_INTERNAL_IMPORT = re.compile(
    r"^import org\.apache\.spark\.(?:sql\.)?"
    r"((?:execution|classic|internal|catalyst\.(?:expressions|plans|trees)|storage|rdd\.BlockRDD|SparkEnv)[\w.]*);",
    re.MULTILINE,
)
_CLASSES = {
    "SparkEnv": ["KeptRows", "RowSpill"],
    "catalyst.expressions.Alias": ["UpsertStrategy"],
    "catalyst.expressions.And": ["UpsertStrategy"],
    "catalyst.expressions.AttributeReference": ["Conditions", "UpsertStrategy"],
    "catalyst.expressions.BloomFilterMightContain": ["UpsertStrategy"],
    "catalyst.expressions.EqualNullSafe": ["UpsertStrategy"],
    "catalyst.expressions.EqualTo": ["UpsertStrategy"],
    "catalyst.expressions.Expression": ["Conditions", "NativeParquet", "SlicesScanBuilder", "UpsertStrategy"],
    "catalyst.expressions.GenericInternalRow": ["ChangeWriter", "MetadataTable"],
    "catalyst.expressions.InSet": ["Conditions"],
    "catalyst.expressions.IsNotNull": ["UpsertStrategy"],
    "catalyst.expressions.JoinedRow": ["ChangeWriter"],
    "catalyst.expressions.Literal": ["Conditions", "UpsertStrategy"],
    "catalyst.expressions.NamedExpression": ["UpsertStrategy"],
    "catalyst.expressions.SubqueryExpression": ["UpsertStrategy"],
    "catalyst.expressions.UnsafeProjection": ["ChangeWriter", "KeptRows"],
    "catalyst.expressions.UnsafeRow": ["KeptRows", "RowSpill"],
    "catalyst.expressions.objects.AssertNotNull": ["UpsertStrategy"],
    "catalyst.plans.logical.Filter": ["UpsertStrategy"],
    "catalyst.plans.logical.Join": ["UpsertStrategy"],
    "catalyst.plans.logical.LogicalPlan": ["AnalysedPlans", "UpsertStrategy"],
    "catalyst.plans.logical.MergeRows": ["UpsertStrategy"],
    "catalyst.plans.logical.Project": ["UpsertStrategy"],
    "catalyst.plans.logical.WriteDelta": ["UpsertStrategy"],
    "classic.SparkSession": ["NativeParquet"],
    "execution.QueryExecution": ["AnalysedPlans"],
    "execution.RowToColumnConverter": ["RowsAsColumns"],
    "execution.SQLExecution": ["AnalysedPlans"],
    "execution.SparkPlan": ["UpsertStrategy"],
    "execution.SparkStrategy": ["UpsertStrategy"],
    "execution.datasources.parquet.ParquetFileFormat": ["NativeParquet"],
    "execution.datasources.v2.AppendDataExecV1": ["UpsertStrategy"],
    "execution.datasources.v2.DataSourceV2Relation": ["AnalysedPlans"],
    "execution.datasources.v2.DataSourceV2ScanRelation": ["AnalysedPlans"],
    "execution.datasources.v2.parquet.ParquetScanBuilder": ["NativeParquet"],
    "execution.datasources.v2.parquet.ParquetTable": ["NativeParquet"],
    "execution.datasources.v2.python.PythonBatchWrite": ["PythonSource"],
    "execution.datasources.v2.python.PythonDataSourceV2": ["PythonSource"],
    "execution.datasources.v2.python.PythonWriterCommitMessage": ["PythonSource"],
    "execution.streaming.Sink": ["FormatSource", "TableSink"],
    "execution.streaming.sources.ForeachBatchSink": ["TableSink"],
    "execution.vectorized.OnHeapColumnVector": ["RowsAsColumns"],
    "internal.connector.SupportsPushDownCatalystFilters": ["SlicesScanBuilder"],
    "internal.connector.SupportsStreamingUpdateAsAppend": ["FrameWrite"],
    "rdd.BlockRDD": ["KeptRows"],
    "storage.BlockId": ["KeptRows"],
    "storage.RDDBlockId": ["KeptRows"],
    "storage.StorageLevel": ["KeptRows"],
    "storage.TempLocalBlockId": ["RowSpill"],
}
"""Spark's internal classes, which a release may change, and the files that use them."""


def test_internal_classes_of_spark_are_in_the_files_that_are_listed() -> None:
    found: dict[str, list[str]] = {}
    for source in sorted(make_jar.SOURCES.rglob("*.java")):
        for name in _INTERNAL_IMPORT.findall(source.read_text("utf-8")):
            found.setdefault(name, []).append(source.stem)
    assert found == _CLASSES


def test_the_same_classes_make_the_same_jar(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / f"classes{number}" / "chronolake"
        folder.mkdir(parents=True)
        # Another order and another date.
        for name in ("B.class", "A.class")[:: 1 if number == 1 else -1]:
            (folder / name).write_bytes(name.encode())
            os.utime(folder / name, (number, number))
        make_jar._pack(folder.parent, tmp_path / f"{number}.jar")
    assert (tmp_path / "1.jar").read_bytes() == (tmp_path / "2.jar").read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK")
def test_two_builds_make_the_same_jar(tmp_path: Path) -> None:
    for number in (1, 2):
        assert make_jar.main(["--force", "--output", str(tmp_path / f"{number}.jar")]) == 0
    assert (tmp_path / "1.jar").read_bytes() == (tmp_path / "2.jar").read_bytes()


@pytest.mark.skipif(not make_jar.JAR.exists(), reason="the Java part is not built: there is no JDK")
def test_the_wheel_has_the_jar() -> None:
    packed = {file.path for file in WheelBuilder(str(make_jar.ROOT)).recurse_included_files()}
    assert str(make_jar.JAR) in packed


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK")
def test_a_method_with_other_types_in_another_release_is_found(tmp_path: Path) -> None:
    (tmp_path / "Caller.java").write_text("class Caller { Object call() { return Api.find(1); } }")
    for build, type_ in (("one", "int"), ("same", "int"), ("other", "long")):
        api = tmp_path / build / "Api.java"
        api.parent.mkdir()
        api.write_text(f"class Api {{ static Object find({type_} number) {{ return null; }} }}")
        assert make_jar.compiled([api, tmp_path / "Caller.java"], tmp_path, tmp_path / build)

    assert check_jar._differences(tmp_path / "one", tmp_path / "same") == []
    assert check_jar._differences(tmp_path / "other", tmp_path / "one") == [
        "Caller.class names Methodref Api.find:(I)Ljava/lang/Object;, which is not there",
        "Caller.class would name Methodref Api.find:(J)Ljava/lang/Object;",
    ]
