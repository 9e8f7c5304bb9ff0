"""The obstacles to the adoption of a Hudi table: each with its reason and what to do. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from chronolake.hudi.stored import StoredTable
from chronolake_hudi import avro_schema, internal_schemas, properties
from chronolake_hudi.errors import UnsupportedFormat
from chronolake_hudi.metadata import SCHEMA_KEY
from chronolake_hudi.properties import HudiMergeMode, TableConfig
from chronolake_hudi.timeline_files import Layout
from chronolake_model.tables import Field
from chronolake_model.vocabulary import Action, State

_PAYLOADS: Final[Mapping[str, HudiMergeMode]] = {
    "OverwriteWithLatestAvroPayload": HudiMergeMode.COMMIT_TIME,
    "DefaultHoodieRecordPayload": HudiMergeMode.EVENT_TIME,
    "EventTimeAvroPayload": HudiMergeMode.EVENT_TIME,
}
"""The payload classes that are one of the two merge modes."""
_SWITCHES: Final[Mapping[str, str]] = {
    "hoodie.table.multiple.base.file.formats.enable": "its base files may have several formats",
}
_PAYLOAD_KEYS: Final = ("hoodie.table.legacy.payload.class", "hoodie.compaction.payload.class")
_CREATE_SCHEMA: Final = "hoodie.table.create.schema"
_OTHER_FORMATS: Final = (".orc", ".hfile", ".lance", ".vortex")


def obstacles(table: StoredTable) -> Iterator[str]:
    """Why the table cannot be adopted, one sentence each; none if it can."""
    yield from _of_properties(table)
    yield from _of_merging(table)
    yield from _of_timeline(table)
    yield from _of_files(table)
    try:
        if not schema_of(table):
            yield (
                "neither a commit nor hoodie.table.create.schema states the table's schema; write to it with "
                "Hudi once"
            )
    except UnsupportedFormat as exc:
        yield str(exc)


def merge_mode_of(config: TableConfig) -> HudiMergeMode | None:
    """Which of two records of one key wins; None if the table's payload class is neither of the two modes."""
    payload = next((config.others[key] for key in _PAYLOAD_KEYS if config.others.get(key)), "")
    by_payload = _PAYLOADS.get(payload.rpartition(".")[2])
    if config.merge_mode is not None:
        return None if config.merge_mode is HudiMergeMode.CUSTOM else config.merge_mode
    return by_payload if payload else HudiMergeMode.COMMIT_TIME


def stated_schema(table: StoredTable) -> list[Field]:
    """The columns that the last commit states; empty also if Chronolake cannot have them."""
    try:
        return schema_of(table)
    except UnsupportedFormat:
        return []


def schema_of(table: StoredTable) -> list[Field]:
    """The columns that the last commit states, or the creation; empty if none does.

    Raises ``UnsupportedFormat``.
    """
    commits = [
        (instant.completion_time or instant.requested_time, instant)
        for instant in table.instants
        if instant.commit is not None
    ]
    stated = [
        (instant.commit.extra_metadata[SCHEMA_KEY], instant.paths[-1])
        for _, instant in sorted(commits, key=lambda entry: entry[0])
        if instant.commit is not None and instant.commit.extra_metadata.get(SCHEMA_KEY)
    ]
    created = table.config.others.get(_CREATE_SCHEMA)
    if not stated and not created:
        return []
    text, path = stated[-1] if stated else (created or "", properties.PATH)
    if "-timestamp-millis" in text or '"timestamp-millis"' in text:
        raise UnsupportedFormat(
            path, "a column has timestamps of milliseconds", "change its type to timestamp-micros with Hudi"
        )
    return avro_schema.decode(text, path)


def _of_properties(table: StoredTable) -> Iterator[str]:
    config, others = table.config, table.config.others
    if config.is_guarded:
        yield (
            "hoodie.properties says that the table is written through Chronolake already: release it there "
            "(chronolake hudi release). If that table was dropped, take the lines "
            "hoodie.table.keygenerator.class and chronolake.table-id out of hoodie.properties, and adopt it "
            "with --reuse-base-path"
        )
    if config.base_file_format.upper() != "PARQUET":
        yield f"its base files are {config.base_file_format}, and only Parquet is read; rewrite them with Hudi"
    if config.drop_partition_columns:
        yield (
            "hoodie.datasource.write.drop.partition.columns is true: its files lack the partition columns; "
            "rewrite the table with Hudi without it"
        )
    if not config.meta_fields:
        yield "hoodie.populate.meta.fields is false, and records without meta columns are not read"
    yield from _of_switches(others)
    timeline = others.get("hoodie.timeline.path")
    if table.layout is Layout.TWO and timeline not in (None, "", "timeline"):
        yield f"hoodie.timeline.path is {timeline!r}, and only 'timeline' is read"


def _of_switches(others: Mapping[str, str]) -> Iterator[str]:
    for key, why in _SWITCHES.items():
        if others.get(key, "false").lower() == "true":
            yield f"{key} is true: {why}; switch it off with Hudi"
    for key in ("hoodie.bootstrap.base.path", "hoodie.table.bootstrap.base.path"):
        if others.get(key):
            yield f"{key} is set: a bootstrapped table has its columns in another folder; rewrite it with Hudi"
    if others.get("hoodie.table.partial.update.mode"):
        yield "hoodie.table.partial.update.mode is set, and partial updates are not merged"
    merging = sorted(key for key in others if key.startswith("hoodie.record.merge.property."))
    if merging:
        yield f"{merging[0]} is set: the table merges records in a way of its own"


def _of_merging(table: StoredTable) -> Iterator[str]:
    if merge_mode_of(table.config) is None:
        yield (
            "it merges records with a class of its own, by its merge mode or payload class; only commit time "
            "and event time ordering can be adopted"
        )


def _of_timeline(table: StoredTable) -> Iterator[str]:
    short = sorted({instant.requested_time for instant in table.instants if len(instant.requested_time) != 17})
    if short:
        yield (
            f"its timeline has instants of {len(short[0])} digits, such as {short[0]}; write to the table with "
            "Hudi 0.14 or later, and archive them"
        )
    for instant in table.instants:
        if instant.action is Action.RESTORE and instant.state is not State.COMPLETED:
            yield f"the restore {instant.requested_time} is pending; complete it with Hudi"
    times = [name.requested_time for _, name in table.data_files]
    if (name := internal_schemas.renamed(internal_schemas.in_force(table.schemas, times))) is not None:
        yield (
            f"its schema on read has renamed the column {name!r}, or dropped it and added another of this "
            "name: older files have it under another name. Rewrite them with Hudi (an insert overwrite of the "
            "whole table, and a clean), without hoodie.schema.on.read.enable"
        )


def _of_files(table: StoredTable) -> Iterator[str]:
    for file in table.other_files:
        if file.file_name.endswith(_OTHER_FORMATS):
            yield f"{file.path} is no Parquet file; only Parquet is read"
            return
        if file.file_name.endswith(".parquet") and not file.file_name.startswith("."):
            yield (
                f"{file.path} lies in a partition and has no name of a file of Hudi, so no commit names it: "
                "move it out of the table's folder"
            )
            return
