"""The Avro schemas of the files of a timeline, as far as Chronolake writes them.

Names and types are Hudi's (org.apache.hudi.avro.model). Fields that Chronolake does not fill are left out:
each of them is nullable in Hudi, and a reader takes its default.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

NAMESPACE: Final = "org.apache.hudi.avro.model"
"""The namespace of Hudi's records."""

Schema = Mapping[str, Any]


def record(name: str, **fields: object) -> dict[str, Any]:
    """The schema of a record of Hudi's. A nullable field has null for its default."""
    return {
        "type": "record",
        "name": name,
        "namespace": NAMESPACE,
        "fields": [_field(field_name, field_type) for field_name, field_type in fields.items()],
    }


def array(items: object) -> dict[str, object]:
    """The schema of an array."""
    return {"type": "array", "items": items}


def string_map(values: object) -> dict[str, object]:
    """The schema of a map, whose keys are strings."""
    return {"type": "map", "values": values}


def nullable(schema: object) -> list[object]:
    """The schema of a value that may be null."""
    return ["null", schema]


def _field(name: str, schema: object) -> dict[str, object]:
    if isinstance(schema, list) and schema[0] == "null":
        return {"name": name, "type": schema, "default": None}
    return {"name": name, "type": schema}


_TEXT: Final = nullable("string")
_COUNT: Final = nullable("long")
_VERSION: Final = ["int", "null"]


def _write_stat() -> Schema:
    return record(
        "HoodieWriteStat",
        fileId=_TEXT,
        path=_TEXT,
        prevCommit=_TEXT,
        numWrites=_COUNT,
        numDeletes=_COUNT,
        numUpdateWrites=_COUNT,
        totalWriteBytes=_COUNT,
        totalWriteErrors=_COUNT,
        partitionPath=_TEXT,
        numInserts=_COUNT,
        fileSizeInBytes=_COUNT,
        logVersion=nullable("int"),
        logOffset=_COUNT,
        baseFile=_TEXT,
        logFiles=nullable(array("string")),
        prevBaseFile=_TEXT,
    )


def _commit(name: str, **fields: object) -> Schema:
    return record(
        name,
        partitionToWriteStats=nullable(string_map(array(_write_stat()))),
        compacted=nullable("boolean"),
        extraMetadata=nullable(string_map("string")),
        version=_VERSION,
        operationType=_TEXT,
        **fields,
    )


@functools.cache
def commit() -> Schema:
    """Hudi: HoodieCommitMetadata."""
    return _commit("HoodieCommitMetadata")


@functools.cache
def replace_commit() -> Schema:
    """Hudi: HoodieReplaceCommitMetadata."""
    return _commit(
        "HoodieReplaceCommitMetadata", partitionToReplaceFileIds=nullable(string_map(array("string")))
    )


@functools.cache
def clean() -> Schema:
    """Hudi: HoodieCleanMetadata."""
    partition = record(
        "HoodieCleanPartitionMetadata",
        partitionPath="string",
        policy="string",
        deletePathPatterns=array("string"),
        successDeleteFiles=array("string"),
        failedDeleteFiles=array("string"),
        isPartitionDeleted=nullable("boolean"),
    )
    return record(
        "HoodieCleanMetadata",
        startCleanTime="string",
        timeTakenInMillis="long",
        totalFilesDeleted="int",
        earliestCommitToRetain="string",
        lastCompletedCommitTimestamp="string",
        partitionMetadata=string_map(partition),
        version=_VERSION,
        extraMetadata=nullable(string_map("string")),
    )


@functools.cache
def compaction_plan() -> Schema:
    """Hudi: HoodieCompactionPlan."""
    operation = record(
        "HoodieCompactionOperation",
        baseInstantTime=_TEXT,
        deltaFilePaths=nullable(array("string")),
        dataFilePath=_TEXT,
        fileId=_TEXT,
        partitionPath=_TEXT,
    )
    return record(
        "HoodieCompactionPlan",
        operations=nullable(array(operation)),
        extraMetadata=nullable(string_map("string")),
        version=_VERSION,
    )


@functools.cache
def savepoint() -> Schema:
    """Hudi: HoodieSavepointMetadata."""
    partition = record(
        "HoodieSavepointPartitionMetadata", partitionPath="string", savepointDataFile=array("string")
    )
    return record(
        "HoodieSavepointMetadata",
        savepointedBy="string",
        savepointedAt="long",
        comments="string",
        partitionMetadata=string_map(partition),
        version=_VERSION,
    )


_INSTANT_NAME: Final = f"{NAMESPACE}.HoodieInstantInfo"


@functools.cache
def rollback() -> Schema:
    """Hudi: HoodieRollbackMetadata."""
    partition = record(
        "HoodieRollbackPartitionMetadata",
        partitionPath="string",
        successDeleteFiles=array("string"),
        failedDeleteFiles=array("string"),
    )
    return record(
        "HoodieRollbackMetadata",
        startRollbackTime="string",
        timeTakenInMillis="long",
        totalFilesDeleted="int",
        commitsRollback=array("string"),
        partitionMetadata=string_map(partition),
        version=_VERSION,
        instantsRollback=array(record("HoodieInstantInfo", commitTime="string", action="string")),
    )


@functools.cache
def restore() -> Schema:
    """Hudi: HoodieRestoreMetadata."""
    return record(
        "HoodieRestoreMetadata",
        startRestoreTime="string",
        timeTakenInMillis="long",
        instantsToRollback=array("string"),
        hoodieRestoreMetadata=string_map(array(nullable(rollback()))),
        version=_VERSION,
        restoreInstantInfo=array(_INSTANT_NAME),
    )
