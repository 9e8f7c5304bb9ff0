"""Files of a table as another engine writes them: any file groups, any records in them, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

import chronolake
from chronolake.slices import arrow_types, base_files, columns, log_contents
from chronolake.slices.base_files import TableFolder
from chronolake.slices.log_contents import LogFormat
from chronolake_hudi.log_blocks import DeletedRecord
from chronolake_model.file_names import base_file_name, log_file_name, relative_path
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.instants import Instant, Plan
from chronolake_model.vocabulary import Action

Group = tuple[str, str]
"""Partition path and file id."""
TOKEN = "0-0-0"


@dataclass(frozen=True, slots=True)
class Records:
    """Records of a file by key, each with the time of its commit, None for the instant; and deletes of keys."""

    records: Mapping[str, str | None]
    deletes: Sequence[str] = ()
    is_log: bool = field(default=False)


def base(*keys: str, times: Mapping[str, str] | None = None) -> Records:
    """A base file."""
    return Records({key: (times or {}).get(key) for key in keys})


def log(*keys: str, deletes: Sequence[str] = ()) -> Records:
    """A log file."""
    return Records(dict.fromkeys(keys), deletes, is_log=True)


def commit(
    table: chronolake.Table,
    files: Mapping[Group, Records],
    *,
    replaced: Sequence[Group] = (),
    action: Action | None = None,
    planned: Sequence[Group] = (),
) -> Instant:
    """One instant that writes these files."""
    plan = Plan([FileGroupName(*group) for group in planned]) if planned else None
    with table.begin(action=action, plan=plan) as write:
        time = write.instant.requested_time
        stats = [_written(table, time, group, records) for group, records in files.items()]
        return write.complete(stats, replaced_file_groups=[FileGroupName(*group) for group in replaced])


def _written(table: chronolake.Table, time: str, group: Group, records: Records) -> WriteStat:
    partition_path, file_id = group
    name = (log_file_name if records.is_log else base_file_name)(file_id, TOKEN, time)
    path = relative_path(partition_path, name)
    rows = _rows(table, time, group, records)
    folder = TableFolder.of(table.definition.base_path)
    if records.is_log:
        format_ = LogFormat.of(table.name, table.definition.schema, has_avro_blocks=False)
        deleted = [DeletedRecord(key, partition_path) for key in records.deletes]
        size = log_contents.write(folder, path, time, format_, rows, deleted)
    else:
        size = base_files.write(folder, path, rows.schema, [rows])
    return WriteStat(partition_path, file_id, name, size, len(rows), has_field_ids=True)


def _rows(table: chronolake.Table, time: str, group: Group, records: Records) -> pa.Table:
    layout = arrow_types.file_layout(table.definition.schema)
    values = [
        {
            columns.RECORD_KEY: key,
            columns.COMMIT_TIME: written or time,
            columns.PARTITION_PATH: group[0],
            columns.COMMIT_SEQNO: f"{time}_0_{number}",
            columns.FILE_NAME: group[1],
            "id": key if layout.field("id").type == pa.string() else int(key),
        }
        for number, (key, written) in enumerate(records.records.items())
    ]
    return pa.Table.from_pylist(values, schema=layout)
