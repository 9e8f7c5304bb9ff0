"""Manifests and manifest lists in Avro (Iceberg's spec, "Manifests" and "Manifest Lists"); no I/O."""

from __future__ import annotations

import base64
import enum
import functools
import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import fastavro
import msgspec

from chronolake_metastore.iceberg import bounds, partitions
from chronolake_metastore.iceberg.bounds import Statistics
from chronolake_metastore.iceberg.partitions import PartitionField, PartitionValue

INDEX: Final = "chronolake.index"
"""The field in the header of a manifest list from which the next list is made. Readers ignore it."""
_SYNC: Final = b"chronolake-sync1"
"""The same in each file, so that equal records give equal bytes."""
_CODEC: Final = "deflate"


class Status(enum.IntEnum):
    """Whether the snapshot of a manifest has the file from its parent, adds it or removes it."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class ManifestEntry(msgspec.Struct, frozen=True):
    """A data file in a manifest. ``sequence_number`` is also the id of the snapshot that added it."""

    status: Status
    sequence_number: int
    path: str
    partition: tuple[PartitionValue, ...]
    records: int
    size_bytes: int
    statistics: Statistics


class PartitionSummary(msgspec.Struct, frozen=True, array_like=True):
    """The values of a partition field in a manifest."""

    contains_null: bool
    lower: bytes | None
    upper: bytes | None


class IcebergManifest(msgspec.Struct, frozen=True, array_like=True):
    """A manifest as lists name it. Numbers of files and records are by ``Status``."""

    path: str
    size_bytes: int
    spec_id: int
    snapshot_id: int
    sequence_number_min: int
    files: tuple[int, int, int]
    records: tuple[int, int, int]
    partitions: list[PartitionSummary]


def write_manifest(
    entries: Sequence[ManifestEntry],
    snapshot_id: int,
    fields: tuple[PartitionField, ...],
    header: Mapping[str, str],
) -> bytes:
    """A manifest that a snapshot adds. ``header`` has the schema and the spec."""
    records = [_entry(entry, snapshot_id, fields) for entry in entries]
    metadata = {**header, "format-version": "2", "content": "data"}
    return _avro(_entry_schema(fields), records, metadata)


def describe(
    path: str, size_bytes: int, spec_id: int, entries: Sequence[ManifestEntry], snapshot_id: int, fields: Any
) -> IcebergManifest:
    """The manifest that has these entries."""
    files, records = [0, 0, 0], [0, 0, 0]
    for entry in entries:
        files[entry.status] += 1
        records[entry.status] += entry.records
    known = [entry.sequence_number for entry in entries if entry.status is not Status.ADDED]
    return IcebergManifest(
        path,
        size_bytes,
        spec_id,
        snapshot_id,
        min([*known, snapshot_id]),
        (files[0], files[1], files[2]),
        (records[0], records[1], records[2]),
        [_summary(field, {entry.partition[at] for entry in entries}) for at, field in enumerate(fields)],
    )


def write_list(
    manifests: Iterable[IcebergManifest], folder: str, snapshot_id: int, parent_id: int | None, index: bytes
) -> bytes:
    """The manifest list of a snapshot."""
    records = [_manifest(manifest, folder) for manifest in manifests]
    metadata = {
        "format-version": "2",
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        "sequence-number": str(snapshot_id),
        # Headers are not compressed, and each reader of the snapshot fetches them.
        INDEX: base64.b64encode(zlib.compress(index)).decode(),
    }
    return _avro(_list_schema(), records, metadata)


def index_of(content: bytes) -> bytes:
    """The index in a manifest list."""
    return zlib.decompress(base64.b64decode(fastavro.reader(io.BytesIO(content)).metadata[INDEX]))


def _avro(schema: Any, records: list[dict[str, Any]], metadata: dict[str, str]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec=_CODEC, sync_marker=_SYNC, metadata=metadata)
    return out.getvalue()


def _entry(entry: ManifestEntry, snapshot_id: int, fields: tuple[PartitionField, ...]) -> dict[str, Any]:
    is_existing = entry.status is Status.EXISTING
    is_added = entry.status is Status.ADDED
    statistics = entry.statistics
    return {
        "status": int(entry.status),
        "snapshot_id": entry.sequence_number if is_existing else snapshot_id,
        # Those of an added file are inherited from the manifest.
        "sequence_number": None if is_added else entry.sequence_number,
        "file_sequence_number": None if is_added else entry.sequence_number,
        "data_file": {
            "content": 0,
            "file_path": entry.path,
            "file_format": "PARQUET",
            "partition": {
                f"p{partitions.FIRST_FIELD_ID + at}": value
                for at, (_, value) in enumerate(zip(fields, entry.partition, strict=True))
            },
            "record_count": entry.records,
            "file_size_in_bytes": entry.size_bytes,
            "value_counts": _map(statistics.values),
            "null_value_counts": _map(statistics.nulls),
            "lower_bounds": _map(statistics.lower),
            "upper_bounds": _map(statistics.upper),
        },
    }


def _map(values: Mapping[int, Any]) -> tuple[str, list[dict[str, Any]]] | None:
    """A map. It names its type, because fastavro would compare each value with the types of the union first."""
    return ("array", [{"key": key, "value": value} for key, value in values.items()]) if values else None


def _summary(field: PartitionField, values: set[PartitionValue]) -> PartitionSummary:
    known = [value for value in values if value is not None]
    if not known:
        return PartitionSummary(None in values, None, None)
    least, greatest = min(known), max(known)
    return PartitionSummary(
        None in values, bounds.encoded(field.type, least), bounds.encoded(field.type, greatest)
    )


def _manifest(manifest: IcebergManifest, folder: str) -> dict[str, Any]:
    return {
        "manifest_path": f"{folder}/{manifest.path}",
        "manifest_length": manifest.size_bytes,
        "partition_spec_id": manifest.spec_id,
        "content": 0,
        "sequence_number": manifest.snapshot_id,
        "min_sequence_number": manifest.sequence_number_min,
        "added_snapshot_id": manifest.snapshot_id,
        "added_files_count": manifest.files[Status.ADDED],
        "existing_files_count": manifest.files[Status.EXISTING],
        "deleted_files_count": manifest.files[Status.DELETED],
        "added_rows_count": manifest.records[Status.ADDED],
        "existing_rows_count": manifest.records[Status.EXISTING],
        "deleted_rows_count": manifest.records[Status.DELETED],
        "partitions": [
            {
                "contains_null": summary.contains_null,
                "contains_nan": False,
                "lower_bound": summary.lower,
                "upper_bound": summary.upper,
            }
            for summary in manifest.partitions
        ],
    }


def _required(name: str, field_id: int, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "field-id": field_id}


def _optional(name: str, field_id: int, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None, "field-id": field_id}


def _map_of(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    """A map with keys that are numbers: Avro's own maps have only texts."""
    item = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [_required("key", key_id, "int"), _required("value", value_id, value)],
    }
    return {"type": "array", "logicalType": "map", "items": item}


@functools.lru_cache(maxsize=256)
def _entry_schema(fields: tuple[PartitionField, ...]) -> Any:
    partition = {"type": "record", "name": "r102", "fields": partitions.avro_fields(fields)}
    data_file = {
        "type": "record",
        "name": "r2",
        "fields": [
            _required("content", 134, "int"),
            _required("file_path", 100, "string"),
            _required("file_format", 101, "string"),
            _required("partition", 102, partition),
            _required("record_count", 103, "long"),
            _required("file_size_in_bytes", 104, "long"),
            _optional("value_counts", 109, _map_of(119, 120, "long")),
            _optional("null_value_counts", 110, _map_of(121, 122, "long")),
            _optional("lower_bounds", 125, _map_of(126, 127, "bytes")),
            _optional("upper_bounds", 128, _map_of(129, 130, "bytes")),
        ],
    }
    entry = {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _required("status", 0, "int"),
            _optional("snapshot_id", 1, "long"),
            _optional("sequence_number", 3, "long"),
            _optional("file_sequence_number", 4, "long"),
            _required("data_file", 2, data_file),
        ],
    }
    return fastavro.parse_schema(entry)


@functools.cache
def _list_schema() -> Any:
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _required("contains_null", 509, "boolean"),
            _optional("contains_nan", 518, "boolean"),
            _optional("lower_bound", 510, "bytes"),
            _optional("upper_bound", 511, "bytes"),
        ],
    }
    partitions_of_manifest = {"type": "array", "items": summary, "element-id": 508}
    manifest_file = {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            _required("manifest_path", 500, "string"),
            _required("manifest_length", 501, "long"),
            _required("partition_spec_id", 502, "int"),
            _required("content", 517, "int"),
            _required("sequence_number", 515, "long"),
            _required("min_sequence_number", 516, "long"),
            _required("added_snapshot_id", 503, "long"),
            _required("added_files_count", 504, "int"),
            _required("existing_files_count", 505, "int"),
            _required("deleted_files_count", 506, "int"),
            _required("added_rows_count", 512, "long"),
            _required("existing_rows_count", 513, "long"),
            _required("deleted_rows_count", 514, "long"),
            _optional("partitions", 507, partitions_of_manifest),
        ],
    }
    return fastavro.parse_schema(manifest_file)
