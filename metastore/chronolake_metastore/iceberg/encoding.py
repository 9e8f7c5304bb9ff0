"""How the files of one table are encoded in manifests."""

from __future__ import annotations

import msgspec

from chronolake_metastore.iceberg import bounds, chunks, manifests, partitions, schemas
from chronolake_metastore.iceberg.manifests import IcebergDataFile, ManifestEntry
from chronolake_metastore.iceberg.partitions import PartitionValue, Spec
from chronolake_metastore.queries.iceberg import TableStates
from chronolake_metastore.store.iceberg import BaseFileOfStates
from chronolake_model.file_names import relative_path
from chronolake_model.vocabulary import TableType


class Encoding:
    """The encoding of a table. ``headers`` are those of its manifests, by the ids of their specs.

    They have the first schema, in which each partition field is: so a column that is added changes none.
    """

    def __init__(self, found: TableStates, spec: Spec, location: str) -> None:
        self._spec = spec
        self._location = location
        self._has_logs = found.table.definition.type is TableType.MERGE_ON_READ
        self._values: dict[str, tuple[PartitionValue, ...] | None] = {}
        self.types = schemas.primitives(found.table.definition.schema)
        schema = schemas.document(found.schemas[0])
        text = msgspec.json.encode(schema).decode()
        self.headers = {
            document["spec-id"]: {
                "schema": text,
                "schema-id": str(schema["schema-id"]),
                "partition-spec": msgspec.json.encode(document["fields"]).decode(),
                "partition-spec-id": str(document["spec-id"]),
            }
            for document in spec.documents()
        }

    def fields(self, spec_id: int) -> tuple[partitions.PartitionField, ...]:
        """The fields of a spec."""
        return self._spec.fields if spec_id == 0 else ()

    def partition(self, path: str) -> tuple[int, tuple[PartitionValue, ...]]:
        """The spec of the files in a partition path, and their values of its fields."""
        if path not in self._values:
            self._values[path] = self._spec.values(path) if self._spec.fields else ()
        values = self._values[path]
        return (partitions.UNPARTITIONED, ()) if values is None else (0, values)

    def entry(self, file: BaseFileOfStates) -> ManifestEntry:
        """The entry of a file."""
        spec_id, values = self.partition(file.partition_path)
        data_file = IcebergDataFile(
            f"{self._location}/{relative_path(file.partition_path, file.file_name)}",
            values,
            file.records,
            file.size_bytes,
            bounds.statistics(file.column_stats, self.types, file.records),
        )
        return ManifestEntry(
            file.group,
            chunks.status_of(file),
            # A compaction completes after the state as of its request, which has its files.
            file.requested_time if self._has_logs else file.completion_time,
            file.records,
            file.size_bytes,
            0 if file.has_field_ids else file.schema_version,
            manifests.encode(data_file, self.fields(spec_id)),
        )
