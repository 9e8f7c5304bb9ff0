"""Manifests and manifest lists in Avro (Iceberg's spec, "Manifests" and "Manifest Lists"); no I/O."""

from __future__ import annotations

import base64
import enum
import functools
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from chronolake_metastore.iceberg import avro, avro_schemas, bounds, partitions
from chronolake_metastore.iceberg.bounds import Statistics
from chronolake_metastore.iceberg.partitions import PartitionField, PartitionValue
from chronolake_metastore.store.files import GroupKey
from chronolake_model import decoding

INDEX: Final = "chronolake.chunks"
"""The field in the header of a manifest list from which the next list is made. Readers ignore it."""
ENTRIES: Final = "chronolake.entries"
"""The field in the header of a manifest that says where its entries are, block by block."""
_BETWEEN_BLOCKS: Final = "."
DAMAGED: Final = (
    ValueError,
    LookupError,
    EOFError,
    OverflowError,
    RecursionError,
    zlib.error,
    msgspec.DecodeError,
)
"""Exceptions that a damaged file raises."""
_Size = Annotated[int, msgspec.Meta(ge=0)]
_ENTRY_BYTES: Final = 300
"""About the memory of an entry without its encoded data file."""
KEPT_MAX: Final = 50_000
"""The most encoded parts of each kind that are kept in memory: the next snapshot has most of them again."""


class Status(enum.IntEnum):
    """Whether the snapshot of a manifest has the file from its parent, adds it or removes it."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


_NULL: Final = avro.long(0)
_EXISTING, _ADDED, _DELETED = (avro.long(status) for status in Status)


class IcebergDataFile(msgspec.Struct, frozen=True):
    """A data file as manifests have it."""

    path: str
    partition: tuple[PartitionValue, ...]
    records: int
    size_bytes: int
    statistics: Statistics


class ManifestEntry(msgspec.Struct, frozen=True, gc=False):
    """A data file in a manifest. ``sequence_number`` is also the id of the snapshot that added it.

    ``version_without_ids`` is the version of the schema that a file without field ids was written with, else 0.
    ``data_file`` is encoded.
    """

    group: GroupKey
    status: Status
    sequence_number: int
    records: int
    size_bytes: int
    version_without_ids: int
    data_file: bytes


class _EntryIndex(msgspec.Struct, frozen=True, array_like=True):
    """Where an entry is in a manifest: ``lengths`` are those of its parts before the data file, and of it."""

    group: GroupKey
    status: Status
    sequence_number: int
    records: int
    size_bytes: int
    version_without_ids: int
    lengths: tuple[_Size, _Size]


class PartitionSummary(msgspec.Struct, frozen=True, array_like=True):
    """The values of a partition field in a manifest."""

    contains_null: bool
    lower: bytes | None
    upper: bytes | None


class IcebergManifest(msgspec.Struct, frozen=True, array_like=True):
    """A manifest as lists name it. Numbers of files and records are by ``Status``."""

    path: str
    size_bytes: _Size
    spec_id: int
    snapshot_id: int
    sequence_number_min: int
    files: tuple[int, int, int]
    records: tuple[int, int, int]
    partitions: tuple[PartitionSummary, ...]


class Block(msgspec.Struct, frozen=True):
    """Entries side by side in a manifest, which has ``index`` of them in its header, and ``body``.

    A block without a change is written as it is: its entries are neither encoded nor compressed again.
    """

    entries: list[ManifestEntry]
    index: str
    body: bytes

    @property
    def is_of_any_snapshot(self) -> bool:
        """Whether it has no file that its snapshot adds or removes."""
        return not any([entry.status for entry in self.entries])

    @property
    def size_bytes(self) -> int:
        """About its memory."""
        encoded = sum([len(entry.data_file) for entry in self.entries])
        return encoded + _ENTRY_BYTES * len(self.entries) + len(self.index) + len(self.body)


def make_block(entries: Sequence[ManifestEntry], snapshot_id: int) -> Block:
    """The block of these entries in a manifest that a snapshot adds."""
    records: list[bytes] = []
    # Each has the fields of ``_EntryIndex``; a tuple is made faster.
    index: list[tuple[object, ...]] = []
    known: dict[tuple[Status, int], bytes] = {}
    for entry in entries:
        kind = entry.status, entry.sequence_number
        before = known.get(kind) or known.setdefault(kind, _before_data_file(entry, snapshot_id))
        records += (before, entry.data_file)
        index.append(
            (
                entry.group,
                *kind,
                entry.records,
                entry.size_bytes,
                entry.version_without_ids,
                (len(before), len(entry.data_file)),
            )
        )
    return Block(list(entries), _packed(msgspec.json.encode(index)), avro.block(records))


def write_manifest(
    blocks: Sequence[Block], fields: tuple[PartitionField, ...], header: Mapping[str, str]
) -> bytes:
    """A manifest of blocks. ``header`` has the schema and the spec."""
    metadata = {
        **header,
        "format-version": "2",
        "content": "data",
        ENTRIES: _BETWEEN_BLOCKS.join([block.index for block in blocks]),
    }
    bodies = [(len(block.entries), block.body) for block in blocks]
    return avro.write(avro_schemas.of_entries(fields).text, bodies, metadata)


def blocks_of(manifest: bytes) -> list[Block]:
    """The blocks of a manifest of ``write_manifest``; raises one of ``DAMAGED`` for another file."""
    metadata, bodies = avro.read(manifest)
    bytes_left = avro.BLOCK_BYTES_MAX
    blocks: list[Block] = []
    for index, body in zip(metadata[ENTRIES].split(_BETWEEN_BLOCKS), bodies, strict=True):
        records = avro.records_of(body, bytes_left)
        of_entries = _unpacked(index, bytes_left - len(records))
        bytes_left -= len(records) + len(of_entries)
        blocks.append(Block(_entries_of(of_entries, records), index, body))
    return blocks


def _entries_of(index: bytes, records: bytes) -> list[ManifestEntry]:
    entries: list[ManifestEntry] = []
    at = 0
    for known in decoding.decode(index, list[_EntryIndex]):
        begin = at + known.lengths[0]
        at = begin + known.lengths[1]
        entries.append(
            ManifestEntry(
                known.group,
                known.status,
                known.sequence_number,
                known.records,
                known.size_bytes,
                known.version_without_ids,
                records[begin:at],
            )
        )
    if at != len(records):
        raise ValueError("the entries are not those of the header")
    return entries


def describe(
    path: str,
    size_bytes: int,
    spec_id: int,
    entries: Sequence[ManifestEntry],
    snapshot_id: int,
    summaries: tuple[PartitionSummary, ...],
) -> IcebergManifest:
    """The manifest that has these entries."""
    by_status = [[entry.records for entry in entries if entry.status is status] for status in Status]
    files, records = [len(of_status) for of_status in by_status], [sum(of_status) for of_status in by_status]
    added = Status.ADDED
    known = [entry.sequence_number for entry in entries if entry.status is not added]
    return IcebergManifest(
        path,
        size_bytes,
        spec_id,
        snapshot_id,
        min([*known, snapshot_id]),
        (files[0], files[1], files[2]),
        (records[0], records[1], records[2]),
        summaries,
    )


def summarize(
    fields: tuple[PartitionField, ...], partitions_: Collection[tuple[PartitionValue, ...]]
) -> tuple[PartitionSummary, ...]:
    """The summaries of the partition fields of a manifest that has files of these partitions."""
    return tuple(_summary(field, {values[at] for values in partitions_}) for at, field in enumerate(fields))


def write_list(
    manifests: Iterable[IcebergManifest], folder: str, snapshot_id: int, parent_id: int | None, index: bytes
) -> bytes:
    """The manifest list of a snapshot."""
    records = [_in_list(manifest, folder) for manifest in manifests]
    metadata = {
        "format-version": "2",
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        "sequence-number": str(snapshot_id),
        INDEX: _packed(index),
    }
    blocks = [(len(records), avro.block(records))] if records else []
    return avro.write(avro_schemas.of_lists().text, blocks, metadata)


def index_of(content: bytes) -> bytes:
    """The index in a manifest list; raises one of ``DAMAGED`` for another file."""
    return _unpacked(avro.read(content)[0][INDEX], avro.BLOCK_BYTES_MAX)


def _packed(text: bytes) -> str:
    """Text for a header: headers are not compressed, and each reader of the file fetches them."""
    return base64.b64encode(zlib.compress(text, 1)).decode()


def _unpacked(text: str, bytes_max: int) -> bytes:
    return avro.decompressed(base64.b64decode(text), bytes_max)


def _before_data_file(entry: ManifestEntry, snapshot_id: int) -> bytes:
    """The fields of an entry before its data file, as ``avro_schemas`` has them."""
    match entry.status:
        case Status.EXISTING:
            return _EXISTING + 3 * _number(entry.sequence_number)
        case Status.ADDED:
            # Its sequence numbers are inherited from the manifest.
            return _ADDED + _number(snapshot_id) + _NULL + _NULL
        case Status.DELETED:
            return _DELETED + _number(snapshot_id) + 2 * _number(entry.sequence_number)


@functools.lru_cache(maxsize=KEPT_MAX)
def _number(value: int) -> bytes:
    """A number where null would be allowed."""
    return avro.long(1) + avro.long(value)


def encode(file: IcebergDataFile, fields: tuple[PartitionField, ...]) -> bytes:
    """A data file as the entries of manifests have it."""
    statistics = file.statistics
    document = {
        "content": 0,
        "file_path": file.path,
        "file_format": "PARQUET",
        "partition": {
            f"p{partitions.FIRST_FIELD_ID + at}": value
            for at, (_, value) in enumerate(zip(fields, file.partition, strict=True))
        },
        "record_count": file.records,
        "file_size_in_bytes": file.size_bytes,
        "value_counts": _map(statistics.values),
        "null_value_counts": _map(statistics.nulls),
        "lower_bounds": _map(statistics.lower),
        "upper_bounds": _map(statistics.upper),
    }
    return avro.record(avro_schemas.of_entries(fields).record, document)


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


@functools.lru_cache(maxsize=KEPT_MAX)
def _in_list(manifest: IcebergManifest, folder: str) -> bytes:
    """A manifest as lists have it."""
    document = {
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
    return avro.record(avro_schemas.of_lists().record, document)
