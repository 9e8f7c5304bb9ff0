"""Compactions as another engine does them, without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import chronolake
from chronolake import Action, Marker, MarkerKind
from chronolake_model.file_names import base_file_name
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.instants import Instant
from chronolake_spark.read.slices import base_files
from tests.spark import hudi_reader

_NUMBERS = itertools.count(1)


def compact(
    table: chronolake.Table, groups: Sequence[FileGroupName], meanwhile: Callable[[], object] = lambda: None
) -> Instant:
    """Merge the log files of file groups into new base files; ``meanwhile`` is called once it is planned."""
    plan = table.plan(Action.COMPACTION, groups, writer="planner")
    snapshot = table.snapshot(plan.requested_time)
    slices = {FileGroupName(of.partition_path, of.file_id): of for of in snapshot.slices}
    rows_of = {group: hudi_reader.rows_of_slices(table, [slices[group]]) for group in groups}
    table.publish()
    write = table.execute(plan.requested_time)
    meanwhile()
    folder = base_files.TableFolder.of(table.definition.base_path)
    stats = []
    for group, rows in rows_of.items():
        name = base_file_name(group.file_id, f"{next(_NUMBERS)}-9-9", plan.requested_time)
        marker = Marker(group.partition_path, name, MarkerKind.MERGE)
        write.mark(marker)
        size = base_files.write(folder, marker.path, rows.schema, [rows])
        stats.append(WriteStat(group.partition_path, group.file_id, name, size, len(rows), has_field_ids=True))
    write.complete(stats)
    return write.refresh()
