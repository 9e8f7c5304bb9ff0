"""The reference of the properties of tables: their values from the server, their meaning from here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from chronolake_metastore.domain import properties
from chronolake_model import storage
from chronolake_model.publication import KEEP_MAX_DEFAULT, KEEP_MIN_DEFAULT
from chronolake_model.service_properties import SERVICE_PROPERTIES
from docs import markdown_text

_ADOPTED: Final = "Set by an [adoption](../concepts/adoption.md#what-is-kept): "
_MEANINGS: Final[Mapping[str, tuple[str, str]]] = {
    "conflicts.yields": (
        "table-service",
        "The side that yields when a write and a pending clustering change a common file group "
        "([Conflicts](../concepts/timeline.md#conflicts)). It decides the next conflict",
    ),
    "deletions.executor": (
        "client",
        "Who executes rollbacks and cleans ([Who deletes](../concepts/markers.md#who-deletes)), "
        "from the next ones on",
    ),
    "deletions.grace-seconds": (
        "900",
        "The time after which deleted names are checked for [late files](../concepts/markers.md#late-files); "
        "at least the lease of the instant. It holds from the next sweep on",
    ),
    "files.max-file-size": ("125829120", "The bytes that a base file should have at most"),
    "files.record-size-estimate": (
        "1024",
        "Bytes of a record, as long as no commit has written more bytes than a small file has",
    ),
    "files.small-file-limit": (
        "104857600",
        "Base files with fewer bytes take further inserts; 0: none does "
        "([Sizes of files](../concepts/tables.md#sizes-of-files))",
    ),
    "hoodie.keep.max.commits": (
        str(KEEP_MAX_DEFAULT),
        "With more commits than this, the oldest ones leave the published "
        "[active timeline](../concepts/hudi.md#the-active-timeline-and-its-history)",
    ),
    "hoodie.keep.min.commits": (str(KEEP_MIN_DEFAULT), "The commits that stay on it then"),
    "hudi.active-hours": (
        "0",
        "The hours for which a commit stays on it in any case; at least `deletions.grace-seconds`",
    ),
    "hudi.adopted": (
        "",
        "`hoodie.properties` as it was when the table was [adopted](../concepts/adoption.md)",
    ),
    "hudi.adopting": (
        "",
        "The [adoption](../concepts/adoption.md#what-changes-in-the-folder) is not finished",
    ),
    "hudi.log-blocks": (
        "parquet",
        "`avro` states that all data blocks of the log files are Avro. Then an ordering field may be a string",
    ),
    "hudi.publish": (
        "",
        "`true`: the server refuses commands after which Hudi could not read the table. Without the property "
        "publication [pauses](../concepts/hudi.md#pauses) instead. `false`: Hudi's readers "
        "[find no table](../concepts/hudi.md#switched-off)",
    ),
    "hudi.publisher": (
        "server",
        "Who [publishes](../concepts/hudi.md): the servers that reach the storage, or the Python client after "
        "each write that it completes",
    ),
    "hudi.table-version": ("8", "8 is read by Hudi 1.0.2 and later, 9 by Hudi 1.1 and later"),
    "markers.early-conflict-detection": (
        "false",
        "Whether a marker is refused if another instant has written or marked its file group "
        "([Early conflict detection](../concepts/markers.md#early-conflict-detection)). Markers that were "
        "created before are not compared",
    ),
    "markers.required": (
        "false",
        "Whether files without markers are refused. `true` holds for instants that begin later; `false` and a "
        "removal hold at once",
    ),
    "markers.type": (
        "server",
        "The place of markers ([Direct markers](../concepts/markers.md#direct-markers)). An instant keeps the "
        "type of its begin",
    ),
    "merge.mode": (
        "event-time with an ordering field, otherwise commit-time",
        "Which of two records of one key counts ([Merge modes](../concepts/tables.md#merge-modes))",
    ),
    "merge.ordering-fields": ("", f"{_ADOPTED}the table has several ordering fields"),
    "partition-paths.hive-style": (
        "true",
        "Whether [partition paths](../writing.md#partition-paths) have the names of fields, as in "
        "`day=2026-01-01`",
    ),
    "partition-paths.kept": ("", f"{_ADOPTED}Chronolake does not make the partition paths"),
    "partition-paths.url-encode": (
        "true",
        "Whether special characters in [partition paths](../writing.md#partition-paths) are escaped",
    ),
    "record-keys.kept": ("", f"{_ADOPTED}Chronolake does not make the record keys"),
    "storage.endpoint_override": (
        "",
        "The endpoint of the object store. Move the files, with the claim in `.hoodie`, before you change it",
    ),
    "storage.region": ("", "The region of the object store"),
    "streams.empty-commits": (
        "false",
        "Whether a checkpoint without files completes its instant; otherwise the instant is rolled back",
    ),
    "streams.pending-max": ("100", "Pending instants of one [stream](../concepts/streams.md)"),
    "streams.wait-seconds": (
        "604800",
        "How long reported files wait for their stream after its [lease](../concepts/streams.md#leases) ended",
    ),
    **{name: (policy.default, policy.meaning) for name, policy in SERVICE_PROPERTIES.items()},
}
"""The default and the meaning of each property."""
_CHANGES: Final = {
    properties.Change.ALWAYS: "at any time",
    properties.Change.WITHOUT_PENDING: "while no instant is pending",
    properties.Change.REMOVAL: "it can only be removed",
    properties.Change.NEVER: "never",
}
_SECRETS: Final = {f"{storage.PREFIX}{name}" for name in ("access_key", "secret_key", "session_token")}
"""Names that the server knows only to refuse them."""


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield from (
        "# Properties of tables",
        "",
        "[Change a table](../concepts/tables.md#change-a-table) sets and removes them. Other names that "
        "begin as one of these, or are nearly one of them, are refused. All other names are yours, also those "
        "of Hudi that have no meaning here.",
        "",
    )
    names = sorted(properties.PROPERTIES.keys() - _SECRETS)
    known = ((name, properties.PROPERTIES[name], *_MEANINGS[name]) for name in names)
    rows = (
        (f"`{name}`", property.allowed, default, meaning, _CHANGES[property.change])
        for name, property, default, meaning in known
    )
    yield from markdown_text.table(("property", "values", "default", "meaning", "may change"), rows)
