"""The schemas of manifests and manifest lists (Iceberg's spec, "Manifests" and "Manifest Lists")."""

from __future__ import annotations

import functools
import json
from typing import Any

import fastavro
import msgspec

from chronolake_metastore.iceberg import partitions
from chronolake_metastore.iceberg.partitions import PartitionField


class FileSchema(msgspec.Struct, frozen=True):
    """The schema of a file, as JSON, and that of what is encoded in it, as fastavro has parsed it."""

    text: str
    record: Any


@functools.lru_cache(maxsize=256)
def of_entries(fields: tuple[PartitionField, ...]) -> FileSchema:
    """The schema of manifests; ``record`` is that of the data file of an entry."""
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
    return FileSchema(json.dumps(entry), fastavro.parse_schema(data_file))


@functools.cache
def of_lists() -> FileSchema:
    """The schema of manifest lists; ``record`` is that of a manifest."""
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
    return FileSchema(json.dumps(manifest_file), fastavro.parse_schema(manifest_file))


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
