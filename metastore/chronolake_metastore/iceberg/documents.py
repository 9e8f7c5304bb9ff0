"""The metadata of a table as JSON (Iceberg's spec, "Table Metadata", format version 2)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from chronolake_metastore.domain.schemas import Schema
from chronolake_metastore.iceberg import schemas
from chronolake_metastore.iceberg.chunks import SnapshotIndex
from chronolake_metastore.iceberg.partitions import FIRST_FIELD_ID, Spec
from chronolake_metastore.queries.iceberg import TableStates
from chronolake_model import decoding
from chronolake_model.storage import PREFIX, options_of
from chronolake_model.tables import SchemaVersion
from chronolake_model.times import MICROS_PER_SECOND, Micros, format_time
from chronolake_model.vocabulary import Operation

_MICROS_PER_MILLISECOND: Final = MICROS_PER_SECOND // 1_000
BRANCH: Final = "main"
NAME_MAPPING: Final = "schema.name-mapping.default"
TYPES: Final = "chronolake.types"
"""The property with the digest of the types by which bounds are encoded."""
WITHOUT_IDS: Final = "chronolake.schema-versions-without-field-ids"
"""The field of a snapshot's summary with the versions that ``SnapshotIndex.without_ids`` has."""
_SERVICES: Final = frozenset({Operation.CLUSTER, Operation.COMPACT, Operation.LOG_COMPACT})


_ID_MAX: Final = 2**63 - 1
_VERSIONS: Final = re.compile(r"([0-9]{1,10}(,[0-9]{1,10})*)?", re.ASCII)


class _StoredSnapshot(msgspec.Struct, rename="kebab", kw_only=True):
    """A snapshot in storage, with the fields that ``snapshot`` gives it, in their order."""

    snapshot_id: int
    parent_snapshot_id: int | msgspec.UnsetType = msgspec.UNSET
    sequence_number: int
    timestamp_ms: int
    manifest_list: str
    summary: dict[str, str]
    schema_id: SchemaVersion

    @property
    def is_sound(self) -> bool:
        """Whether the fields that ``metadata`` uses have values that a server has made."""
        id_ = self.snapshot_id
        is_derived = (self.sequence_number, self.timestamp_ms) == (id_, milliseconds(Micros(id_)))
        parent = self.parent_snapshot_id
        # The oldest one of a cleaned table is its own parent.
        if not isinstance(parent, msgspec.UnsetType) and not 0 <= parent <= id_ <= _ID_MAX:
            return False
        return is_derived and _VERSIONS.fullmatch(self.summary.get(WITHOUT_IDS, "")) is not None


class _StoredProperties(msgspec.Struct):
    types: str = msgspec.field(name=TYPES)


class _StoredMetadata(msgspec.Struct):
    """The fields that are read of metadata in storage, which other programs may have changed."""

    properties: _StoredProperties
    snapshots: list[_StoredSnapshot]


def milliseconds(time: Micros) -> int:
    """The first millisecond at which a state is to be seen."""
    return -(-time // _MICROS_PER_MILLISECOND)


def types_digest(found: TableStates) -> str:
    """A digest of the present types of columns that were widened: bounds in manifests are of these types."""
    versions = [schemas.primitives(version.fields) for version in found.schemas]
    present = versions[-1]
    widened = {
        field_id
        for version in versions
        for field_id, type_ in version.items()
        if present.get(field_id, type_) != type_
    }
    texts = [f"{field_id}={present[field_id]}" for field_id in sorted(widened)]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def snapshot(found: TableStates, index: SnapshotIndex, manifest_list: str) -> dict[str, Any]:
    """The snapshot of a state."""
    state, parent = index.state, index.parent
    tick = found.table.definition.tick
    totals = index.totals
    summary = {
        "operation": _operation(index),
        "added-data-files": str(index.added.files),
        "deleted-data-files": str(index.removed.files),
        "added-records": str(index.added.records),
        "deleted-records": str(index.removed.records),
        "added-files-size": str(index.added.size_bytes),
        "removed-files-size": str(index.removed.size_bytes),
        "total-records": str(totals.records),
        "total-data-files": str(totals.files),
        "total-files-size": str(totals.size_bytes),
        "chronolake.requested-time": format_time(state.requested_time, tick),
        "chronolake.completion-time": format_time(state.completion_time, tick),
    }
    if index.without_ids:
        summary[WITHOUT_IDS] = ",".join(map(str, index.without_ids))
    known = [version.schema_version for version in found.schemas if version.created_at <= state.time]
    has_parent = parent is not None and parent.time != state.time
    parent_id = {"parent-snapshot-id": parent.time} if has_parent and parent else {}
    return {
        "snapshot-id": state.time,
        **parent_id,
        "sequence-number": state.time,
        "timestamp-ms": milliseconds(state.time),
        "manifest-list": manifest_list,
        "summary": summary,
        "schema-id": max(known, default=found.schemas[0].schema_version),
    }


def _operation(index: SnapshotIndex) -> str:
    """The operation by Iceberg's name: readers of changes leave out ``replace``, which changes no record."""
    state = index.state
    if state.operation in _SERVICES and state.time == state.completion_time:
        return "replace"
    if not index.removed.files:
        return "append"
    return "overwrite" if index.added.files else "delete"


def metadata(
    found: TableStates, spec: Spec, location: str, snapshots: Sequence[dict[str, Any]], types: str
) -> dict[str, Any]:
    """The metadata of a table with these snapshots, oldest first, which must be ``unambiguous``."""
    definition = found.table.definition
    current = snapshots[-1] if snapshots else None
    created = milliseconds(found.table.created_at)
    last_schema = milliseconds(found.schemas[-1].created_at)
    document = {
        "format-version": 2,
        "table-uuid": str(found.table.table_id),
        "location": location,
        "last-sequence-number": current["sequence-number"] if current else 0,
        "last-updated-ms": max(created, last_schema, current["timestamp-ms"] if current else 0),
        "last-column-id": definition.last_field_id,
        "current-schema-id": definition.schema_version,
        "schemas": [schemas.document(version) for version in found.schemas],
        "default-spec-id": 0,
        "partition-specs": spec.documents(),
        "last-partition-id": FIRST_FIELD_ID + len(spec.fields) - 1,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": _properties(found, snapshots, types),
        "snapshots": list(snapshots),
        "snapshot-log": _log(snapshots),
        "metadata-log": [],
        "refs": _refs(found, snapshots),
    }
    return document | ({"current-snapshot-id": current["snapshot-id"]} if current else {})


def snapshots_of(content: bytes, types: str) -> list[dict[str, Any]]:
    """The snapshots in a file of metadata that was made by ``types``, without damaged ones."""
    try:
        # Fields of other names take no memory.
        stored = decoding.decode(content, _StoredMetadata)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return []
    if stored.properties.types != types:
        return []
    return [msgspec.to_builtins(snapshot) for snapshot in stored.snapshots if snapshot.is_sound]


def unambiguous(found: TableStates, snapshots: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest snapshots in whose files without field ids no name stands for two columns.

    One name mapping serves all snapshots. Raises ``schemas.AmbiguousName`` if none is left.
    """
    versions: set[int] = set()
    for number, snapshot in enumerate(reversed(snapshots)):
        added = _versions_without_ids(snapshot) - versions
        versions |= added
        try:
            if added:
                schemas.name_mapping(_of_versions(found, versions))
        except schemas.AmbiguousName:
            if number == 0:
                raise
            return list(snapshots[len(snapshots) - number :])
    return list(snapshots)


def only_of_refs(document: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata without the snapshots that no branch and no tag names."""
    named = {ref["snapshot-id"] for ref in document["refs"].values()}
    kept = [snapshot for snapshot in document["snapshots"] if snapshot["snapshot-id"] in named]
    return {**document, "snapshots": kept, "snapshot-log": _log(kept)}


def with_lag(document: Mapping[str, Any], found: TableStates) -> dict[str, Any]:
    """The metadata with the times of its last state and of the table's last completion."""
    last, tick = found.last_completion, found.table.definition.tick
    if last is None or not found.states:
        return dict(document)
    state = found.states[-1].time
    times = {
        "chronolake.state-time": format_time(state, tick),
        "chronolake.last-completion-time": format_time(last, tick),
        "chronolake.lag-ms": str(max(last - state, 0) // _MICROS_PER_MILLISECOND),
    }
    return {**document, "properties": {**document["properties"], **times}}


def config(found: TableStates) -> dict[str, str]:
    """Options of the table's storage, for clients; never a secret, and none if the table states none."""
    options = options_of(found.table.definition.properties)
    properties: dict[str, str] = {}
    if endpoint := options.get("endpoint_override"):
        properties["s3.endpoint"] = endpoint if "://" in endpoint else f"https://{endpoint}"
        properties["s3.path-style-access"] = "true"
    if region := options.get("region"):
        properties |= {"s3.region": region, "client.region": region}
    return properties


def _properties(found: TableStates, snapshots: Sequence[dict[str, Any]], types: str) -> dict[str, str]:
    definition = found.table.definition
    stated = {name: text for name, text in definition.properties.items() if not name.startswith(PREFIX)}
    properties = {**stated, TYPES: types, "chronolake.type": definition.type.value}
    versions = {version for snapshot in snapshots for version in _versions_without_ids(snapshot)}
    if versions:
        mapping = schemas.name_mapping(_of_versions(found, versions))
        properties[NAME_MAPPING] = msgspec.json.encode(mapping).decode()
    return properties


def _versions_without_ids(snapshot: Mapping[str, Any]) -> set[int]:
    return {int(version) for version in snapshot["summary"].get(WITHOUT_IDS, "").split(",") if version}


def _of_versions(found: TableStates, versions: set[int]) -> list[Schema]:
    return [schema for schema in found.schemas if schema.schema_version in versions]


def _log(snapshots: Sequence[Mapping[str, Any]]) -> list[dict[str, int]]:
    return [
        {"timestamp-ms": snapshot["timestamp-ms"], "snapshot-id": snapshot["snapshot-id"]}
        for snapshot in snapshots
    ]


def _refs(found: TableStates, snapshots: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not snapshots:
        return {}
    ids = {snapshot["snapshot-id"] for snapshot in snapshots}
    tick = found.table.definition.tick
    refs: dict[str, Any] = {BRANCH: {"snapshot-id": snapshots[-1]["snapshot-id"], "type": "branch"}}
    for requested, pinned in found.savepoints:
        if pinned in ids:
            refs[f"savepoint-{format_time(requested, tick)}"] = {"snapshot-id": pinned, "type": "tag"}
    return refs
