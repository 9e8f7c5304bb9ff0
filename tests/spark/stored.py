"""The slices that write stats leave, as the server would answer them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import UNSET

from chronolake_model.file_names import FileKind, bucket_of, parse_file_name, relative_path
from chronolake_model.files import WriteStat
from chronolake_spark.read.slices.stored_slices import SliceFile, StoredSlice
from chronolake_spark.write.tasks.stored_groups import GroupNumber


def slices_after(
    slices: Mapping[GroupNumber, StoredSlice], stats: Iterable[WriteStat], schema_version: int = 1
) -> dict[GroupNumber, StoredSlice]:
    """The slices by file group, after an instant has completed with these write stats."""
    after = dict(slices)
    for stat in stats:
        group = GroupNumber(stat.partition_path, bucket_of(stat.file_id))
        if parse_file_name(stat.file_name).kind is FileKind.LOG:
            before = after[group]
            after[group] = msgspec.structs.replace(
                before, logs=[*before.logs, stored_file(stat, schema_version)]
            )
        else:
            after[group] = StoredSlice(stat.partition_path, stat.file_id, stored_file(stat, schema_version))
    return after


def stored_file(stat: WriteStat, schema_version: int) -> SliceFile:
    """The file of a write stat."""
    path = relative_path(stat.partition_path, stat.file_name)
    has_field_ids = stat.has_field_ids is not UNSET and stat.has_field_ids
    return SliceFile(path, stat.size_bytes, schema_version, has_field_ids)
