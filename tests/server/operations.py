"""Every operation of the REST API, and the ways to get its requests wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from typing_extensions import override

from chronolake_model.file_names import base_file_name, bucket_file_id
from tests.server.rest import Json, marker, table_body, write_stat

TABLE = "shop.orders"
NAMESPACE = "shop"
NEVER_USED = "never-used"
"""An idempotency key."""
NO_LEASE = "00000000-0000-0000-0000-000000000000"
HEARTBEAT = "/v1/tables/{table}/instants/{requested_time}/heartbeat"
MARKERS = "/v1/tables/{table}/instants/{requested_time}/markers"
DELETIONS = "/v1/tables/{table}/instants/{requested_time}/deletions"
DELETABLE = "/v1/tables/{table}/instants/{requested_time}/deletable"
DELETABLE_ORPHANS = "/v1/tables/{table}/deletable"
SWEEP = "/v1/tables/{table}/instants/{requested_time}/sweep"
SCHEMA = "/v1/tables/{table}/schema"
CLEANS = "/v1/tables/{table}/cleans"
CLEAN_PLANS = "/v1/tables/{table}/clean-plans"
READERS = "/v1/tables/{table}/readers"
READER_HEARTBEAT = f"{READERS}/{{lease_id}}/heartbeat"
INFLIGHT = "/v1/tables/{table}/instants/{requested_time}/inflight"
FILE_GROUP: Json = {"partition_path": "", "file_id": bucket_file_id(0)}
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Operation:
    """One method at one path of the OpenAPI document, with a body that is valid, if it takes one."""

    method: str
    template: str
    body: Callable[[str], Json] | None = None
    """Given the requested time of an inflight instant."""
    query: str = ""
    """What the operation does not do without."""

    @override
    def __str__(self) -> str:
        return f"{self.method} {self.template}"

    def path(
        self,
        requested_time: str,
        *,
        table: str = TABLE,
        namespace: str = NAMESPACE,
        key: str = NEVER_USED,
        schema_version: str = "1",
        lease_id: str = NO_LEASE,
    ) -> str:
        """The path with its parameters filled in, as they are: whoever fills in odd ones quotes them."""
        path = (
            self.template.replace("{table}", table)
            .replace("{namespace}", namespace)
            .replace("{requested_time}", requested_time)
            .replace("{key}", key)
            .replace("{schema_version}", schema_version)
            .replace("{lease_id}", lease_id)
        )
        return f"{path}?{self.query}" if self.query else path


OPERATIONS = (
    Operation("GET", "/health"),
    Operation("GET", "/ready"),
    Operation("GET", "/v1/time"),
    Operation("GET", "/v1/namespaces"),
    Operation("POST", "/v1/namespaces", lambda _: {"name": "other", "properties": {"owner": "me"}}),
    Operation("GET", "/v1/namespaces/{namespace}"),
    Operation("DELETE", "/v1/namespaces/{namespace}"),
    Operation("GET", "/v1/tables"),
    Operation(
        "POST",
        "/v1/tables",
        lambda _: table_body(
            "shop.other",
            type="merge_on_read",
            partition_fields=["day"],
            ordering_field="at",
            index={"type": "bucket", "buckets": 8},
            tick="1us",
            properties={"owner": "me"},
        ),
    ),
    Operation("GET", "/v1/tables/{table}"),
    Operation("DELETE", "/v1/tables/{table}"),
    Operation(
        "POST",
        SCHEMA,
        lambda _: {
            "changes": [{"change": "add", "name": "note", "type": "string", "nullable": True}],
            "expected_schema_version": 1,
        },
    ),
    Operation("GET", "/v1/tables/{table}/schemas"),
    Operation("GET", "/v1/tables/{table}/schemas/{schema_version}"),
    Operation("GET", "/v1/tables/{table}/instants"),
    Operation(
        "POST",
        "/v1/tables/{table}/instants",
        lambda _: {
            "writer": "w",
            "action": "commit",
            "operation": "upsert",
            "lease_seconds": 5,
            "inflight": True,
            "plan": {"file_groups": [FILE_GROUP], "details": {"strategy": "size"}},
        },
    ),
    Operation("GET", "/v1/tables/{table}/instants/{requested_time}"),
    Operation("POST", INFLIGHT, lambda _: {"writer": "w", "lease_seconds": 5}),
    Operation(
        "POST",
        "/v1/tables/{table}/instants/{requested_time}/requested",
        lambda _: {"writer": "w", "reason": "failed"},
    ),
    Operation(
        "POST",
        "/v1/tables/{table}/instants/{requested_time}/write-stats",
        lambda requested_time: {
            "write_stats": [
                write_stat(requested_time, updates=1, deletes=1, column_stats=[{"field_id": 1, "nulls": 0}])
            ],
            "writer": "w",
        },
    ),
    Operation(
        "POST",
        "/v1/tables/{table}/instants/{requested_time}/complete",
        lambda requested_time: {
            "write_stats": [
                write_stat(requested_time, updates=1, deletes=1, column_stats=[{"field_id": 1, "nulls": 0}])
            ],
            "extra_metadata": {"query": "1"},
            "replaced_file_groups": [FILE_GROUP],
            "writer": "w",
            "schema_version": 1,
            "cleaned_before": requested_time,
        },
    ),
    Operation(
        "POST",
        "/v1/tables/{table}/instants/{requested_time}/conflicts",
        lambda _: {"file_groups": [FILE_GROUP | {"how": "base"}]},
    ),
    Operation(
        "POST",
        "/v1/transactions/complete",
        lambda requested_time: {
            "instants": [
                {
                    "table": TABLE,
                    "requested_time": requested_time,
                    "write_stats": [write_stat(requested_time)],
                    "extra_metadata": {"query": "1"},
                    "replaced_file_groups": [FILE_GROUP],
                    "writer": "w",
                    "cleaned_before": requested_time,
                }
            ]
        },
    ),
    Operation(
        "POST",
        "/v1/tables/{table}/savepoints",
        lambda requested_time: {"writer": "w", "instant": requested_time, "comment": "before the load"},
    ),
    Operation(
        "POST",
        "/v1/tables/{table}/savepoints/{requested_time}/release",
        lambda _: {"writer": "w", "reason": "tired"},
    ),
    Operation(
        "POST",
        "/v1/tables/{table}/restore",
        lambda requested_time: {"writer": "w", "savepoint": requested_time, "reason": "bad load"},
    ),
    Operation(
        "POST",
        "/v1/tables/{table}/instants/{requested_time}/rollback",
        lambda requested_time: {
            "writer": "w",
            "reason": "tired",
            "files_to_delete": [write_stat(requested_time)["file_name"]],
            "lease_seconds": 5,
            "execute": False,
        },
    ),
    Operation(
        "POST",
        DELETABLE,
        lambda requested_time: {
            "files": [{"partition_path": "", "file_name": write_stat(requested_time)["file_name"]}],
            "writer": "w",
        },
    ),
    Operation(
        "POST",
        DELETABLE_ORPHANS,
        lambda requested_time: {
            "files": [{"partition_path": "", "file_name": write_stat(requested_time)["file_name"]}],
            "unknown_instants": True,
        },
    ),
    Operation(
        "POST",
        HEARTBEAT,
        lambda _: {"lease_seconds": 5, "writer": "w"},
    ),
    Operation(
        "POST",
        MARKERS,
        lambda requested_time: {"markers": [marker(requested_time)], "writer": "w"},
    ),
    Operation("GET", MARKERS),
    Operation("DELETE", MARKERS),
    Operation(
        "POST",
        DELETIONS,
        lambda requested_time: {
            "files": [
                {"partition_path": "", "file_name": base_file_name(bucket_file_id(0), "0-0-0", requested_time)}
            ],
            "writer": "w",
        },
    ),
    Operation("GET", DELETIONS),
    Operation("GET", "/v1/tables/{table}/instants/{requested_time}/plan/files"),
    Operation("GET", "/v1/tables/{table}/instants/{requested_time}/plan/file-groups"),
    Operation("GET", "/v1/tables/{table}/instants/{requested_time}/plan/instants"),
    Operation("GET", "/v1/tables/{table}/instants/{requested_time}/replaced-file-groups"),
    Operation("GET", "/v1/tables/{table}/unswept"),
    Operation(
        "POST",
        SWEEP,
        lambda requested_time: {
            "unswept_since": requested_time,
            "found": [
                {"partition_path": "", "file_name": base_file_name(bucket_file_id(0), "0-0-0", requested_time)}
            ],
        },
    ),
    Operation(
        "GET",
        "/v1/tables/{table}/instants/{requested_time}/marker",
        query=f"name={base_file_name(bucket_file_id(0), '0-0-0', '20260101000000000')}.marker.CREATE",
    ),
    Operation(
        "POST",
        "/v1/tables/{table}/completion-times",
        lambda requested_time: {"requested_times": [requested_time]},
    ),
    Operation(
        "POST",
        CLEANS,
        lambda _: {"writer": "w", "retain_commits": 1, "lease_seconds": 5, "execute": False},
    ),
    Operation("POST", CLEAN_PLANS, lambda _: {"retain_versions": 1}),
    Operation("POST", READERS, lambda _: {"reader": "r", "as_of": "latest", "lease_seconds": 5}),
    Operation("GET", READERS),
    Operation("POST", READER_HEARTBEAT, lambda _: {"lease_seconds": 5}),
    Operation("DELETE", f"{READERS}/{{lease_id}}"),
    Operation("GET", "/v1/tables/{table}/snapshot"),
    Operation(
        "POST",
        "/v1/tables/{table}/scan",
        lambda requested_time: {
            "as_of": requested_time,
            "partition_paths": [""],
            "filter": {"type": "not", "filter": {"type": "starts_with", "column": "name", "prefix": "a"}},
            "limit": 10,
        },
    ),
    Operation("GET", "/v1/tables/{table}/published"),
    Operation("GET", "/v1/tables/{table}/changes"),
    Operation("GET", "/v1/tables/{table}/file-groups/history", query=f"file_id={bucket_file_id(0)}"),
    Operation("GET", "/v1/tables/{table}/partitions"),
    Operation("GET", "/v1/tables/{table}/replaced-file-groups"),
    Operation("GET", "/v1/tables/{table}/pending-file-groups"),
    Operation("GET", "/v1/events"),
    Operation("GET", "/v1/outcomes/{key}"),
)

STREAMS = (Operation("GET", "/v1/events/stream"),)
"""Answers that do not end by themselves; ``test_feed.py`` tries them."""

WITH_BODY = tuple(operation for operation in OPERATIONS if operation.body is not None)
BODY_OPTIONAL = (HEARTBEAT, INFLIGHT)
"""Templates of those whose body may be left out: an empty one is ``{}``."""
OF_A_TABLE = tuple(operation for operation in OPERATIONS if "{table}" in operation.template)
OF_A_NAMESPACE = tuple(operation for operation in OPERATIONS if "{namespace}" in operation.template)
OF_AN_INSTANT = tuple(operation for operation in OPERATIONS if "{requested_time}" in operation.template)
NO_COMMANDS = (
    "/deletable",
    *("/conflicts", "/completion-times", "/scan", "/markers", "/clean-plans"),
    *("/readers", "/{lease_id}", "/{lease_id}/heartbeat"),
)
"""How the paths of those end that are posted because of their bodies, or are no events."""
COMMANDS = tuple(
    operation
    for operation in OPERATIONS
    if operation.method != "GET" and not operation.template.endswith(NO_COMMANDS)
)
LISTS = tuple(
    operation
    for operation in OPERATIONS
    if operation.method == "GET"
    and operation.template.endswith(("s", "snapshot", "unswept"))
    and operation.template != "/v1/events"
)

NOT_JSON = {
    "empty": b"",
    "a word": b"nonsense",
    "half an object": b'{"name": ',
    "two values": b"{} {}",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"text"',
    "a number": b"1",
    "a huge number": b"9" * 5_000,
    "true": b"true",
    "no UTF-8": b"\xff\xfe",
    "no UTF-8 in a name": b'{"\xff": 1}',
    "no UTF-8 in a text": b'{"writer": "\xff", "name": "\xff"}',
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"name":' * 100_000,
    "an unknown field": b'{"nobody_knows_this": 1}',
}
"""Bodies that no operation takes; an empty one is another matter where the body is optional."""

_WRONG: dict[type, tuple[str, ...]] = {
    str: ("1", "true", "1.5", "[]", "{}", '"\\u0000"', '"\\ud800"', json.dumps("x" * 70_000), '"\xff"'),
    int: ("null", '"1"', "-1", "1.5", "true", "[]", "{}", "1e400", "9" * 30, "9" * 5_000),
    bool: ("null", '"true"', "1", "[]", "{}"),
    list: ("null", '"x"', "1", "{}", "[null]", "[[]]", "[" * 1_000),
    dict: ("null", '"x"', "1", "[]", '{"x": null}', '{"x": 1}', '{"\\u0000": "x"}', '{"x": "\\ud800"}'),
}
"""For each type of JSON what cannot stand in its place, raw."""

_OPTIONAL_OF_STATS = {
    "write_stats.0.inserts",
    "write_stats.0.updates",
    "write_stats.0.deletes",
    "write_stats.0.column_stats",
    "write_stats.0.column_stats.0.nulls",
}
# By the names of the fields, dotted; properties may hold anything.
_OPTIONAL = {
    "/v1/namespaces": {"properties"},
    "/v1/tables": {
        "type",
        "partition_fields",
        "ordering_field",
        "index",
        "index.type",
        "index.buckets",
        "tick",
        "properties",
        "schema.0.nullable",
    },
    "/v1/tables/{table}/instants": {
        "action",
        "operation",
        "lease_seconds",
        "inflight",
        "plan",
        "plan.file_groups",
        "plan.details",
    },
    SCHEMA: {"expected_schema_version", "changes.0.nullable"},
    INFLIGHT: {"writer", "lease_seconds"},
    "/v1/tables/{table}/instants/{requested_time}/requested": {"reason"},
    "/v1/tables/{table}/instants/{requested_time}/conflicts": {"file_groups.0.how"},
    "/v1/transactions/complete": {
        f"instants.0.{name}"
        for name in (
            "write_stats",
            "extra_metadata",
            "replaced_file_groups",
            "writer",
            "cleaned_before",
            "write_stats.0.inserts",
        )
    },
    "/v1/tables/{table}/scan": {"as_of", "partition_paths", "filter", "limit"},
    "/v1/tables/{table}/savepoints": {"instant", "comment"},
    "/v1/tables/{table}/savepoints/{requested_time}/release": {"reason"},
    "/v1/tables/{table}/restore": {"reason"},
    "/v1/tables/{table}/instants/{requested_time}/complete": {
        "write_stats",
        "extra_metadata",
        "replaced_file_groups",
        "writer",
        "schema_version",
        "cleaned_before",
        *_OPTIONAL_OF_STATS,
    },
    "/v1/tables/{table}/instants/{requested_time}/write-stats": {"writer", *_OPTIONAL_OF_STATS},
    "/v1/tables/{table}/instants/{requested_time}/rollback": {
        "reason",
        "files_to_delete",
        "lease_seconds",
        "execute",
    },
    HEARTBEAT: {"lease_seconds", "writer"},
    CLEANS: {"retain_commits", "lease_seconds", "execute"},
    DELETABLE: {"writer"},
    DELETABLE_ORPHANS: {"unknown_instants"},
    CLEAN_PLANS: {"retain_versions"},
    READERS: {"as_of", "lease_seconds"},
    READER_HEARTBEAT: {"lease_seconds"},
    MARKERS: {"writer"},
    DELETIONS: {"writer"},
    SWEEP: {"found"},
}

_MARK = "the place to be filled"


def places(value: object, at: Path = ()) -> Iterator[tuple[Path, object]]:
    """Every place below a JSON value, with what stands there; of a list only the first entry."""
    inside: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value[:1]))
    for key, below in inside:
        yield (*at, key), below
        yield from places(below, (*at, key))


def with_raw(body: Json, at: Path, raw: str) -> bytes:
    """The body as bytes, with raw JSON (or what is none) in one place."""
    return json.dumps(replaced(body, at, _MARK)).replace(json.dumps(_MARK), raw).encode("latin-1")


def replaced(body: Any, at: Path, value: object) -> Any:
    """A copy of the body with another value in one place."""
    if not at:
        return value
    copy: Any = dict(body) if isinstance(body, dict) else list(body)
    copy[at[0]] = replaced(copy[at[0]], at[1:], value)
    return copy


def without(body: Any, at: Path) -> Any:
    """A copy of the body with one place left out."""
    copy: Any = dict(body) if isinstance(body, dict) else list(body)
    if len(at) == 1:
        del copy[at[0]]
    else:
        copy[at[0]] = without(copy[at[0]], at[1:])
    return copy


def wrong_types(operation: Operation) -> Iterator[tuple[Path, str]]:
    """Each field of the operation's body with what cannot stand there."""
    assert operation.body is not None
    for at, value in places(operation.body("20260101000000000")):
        nullable = (
            at[-1]
            in ("ordering_field", "plan", "instant", "expected_schema_version", "as_of", "partition_paths")
            or str(at[-1]).startswith("retain_")
            or (operation.template.endswith("scan") and at == ("filter",))
            or (
                operation.template.endswith(
                    ("heartbeat", "inflight", "complete", "write-stats", "markers", "deletions")
                )
                and at[-1] in ("lease_seconds", "writer", "schema_version", "cleaned_before")
            )
        )
        for raw in _WRONG[type(value)]:
            if not (raw == "null" and nullable):
                yield at, raw


def required_fields(operation: Operation) -> Iterator[Path]:
    """The fields that the operation's body must have."""
    assert operation.body is not None
    for at, _ in places(operation.body("20260101000000000")):
        within_properties = any(part in ("properties", "extra_metadata", "details") for part in at[:-1])
        optional = ".".join(map(str, at)) in _OPTIONAL.get(operation.template, set())
        if isinstance(at[-1], str) and not within_properties and not optional:
            yield at


def not_json(operation: Operation) -> Iterator[tuple[str, bytes]]:
    """Bodies that the operation does not take, with their names."""
    for name, raw in NOT_JSON.items():
        if raw or operation.template not in BODY_OPTIONAL:
            yield name, raw


def quoted(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")
