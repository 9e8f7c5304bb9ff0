"""The ways to get the body of a request wrong, for every operation of the REST API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from chronolake_metastore.api import times_in_openapi
from tests.server.operations import (
    ADOPT,
    ADOPT_DRY_RUN,
    BODY_OPTIONAL,
    CLEAN_PLANS,
    CLEANS,
    DELETABLE,
    DELETABLE_ORPHANS,
    DELETIONS,
    HEARTBEAT,
    INFLIGHT,
    MARKERS,
    ONE_STREAM,
    PUBLICATION,
    PUBLICATION_LEASE,
    READER_HEARTBEAT,
    READERS,
    SCHEMA,
    SWEEP,
    Operation,
)
from tests.server.rest import Json

Path = tuple[str | int, ...]
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
"""For each type of JSON, raw values that are invalid in its place."""
_OPTIONAL_OF_STATS = {
    "write_stats.0.inserts",
    "write_stats.0.updates",
    "write_stats.0.deletes",
    "write_stats.0.column_stats",
    "write_stats.0.has_field_ids",
    "write_stats.0.column_stats.0.nulls",
}
_OPTIONAL_OF_TABLES = {
    "type",
    "partition_fields",
    "ordering_field",
    "index",
    "index.type",
    "index.buckets",
    "tick",
    "properties",
    "schema.0.nullable",
}
# By the names of the fields, dotted; properties may hold anything.
_OPTIONAL = {
    "/v1/tables/{table}": {"name", "set", "set.owner", "unset"},
    "/v1/namespaces": {"properties"},
    "/v1/tables": _OPTIONAL_OF_TABLES,
    "/v1/tables/dry-run": _OPTIONAL_OF_TABLES,
    "/v1/tables/{table}/instants": {
        "action",
        "operation",
        "lease_seconds",
        "inflight",
        "plan",
        "plan.file_groups",
        "plan.details",
        "plan.buckets",
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
    "/v1/tables/{table}/file-groups": {"as_of", "file_groups", "buckets", "limit"},
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
    f"{ONE_STREAM}/open": {"lease_seconds", "tasks", "restored_checkpoint"},
    f"{ONE_STREAM}/heartbeat": {"lease_seconds"},
    f"{ONE_STREAM}/instants": {"attempt", "operation", "blocking"},
    f"{ONE_STREAM}/write-metadata": {
        "attempt",
        "requested_time",
        "write_stats",
        "last_batch",
        "end_of_input",
        "bootstrap",
        *_OPTIONAL_OF_STATS,
    },
    f"{ONE_STREAM}/complete": {"checkpoint", "extra_metadata"},
    f"{ONE_STREAM}/abort": {"reason"},
    f"{ONE_STREAM}/restart-task": {"restored_checkpoint"},
    f"{ONE_STREAM}/close": {"reason"},
    PUBLICATION: {"foreign_files", "release"},
    PUBLICATION_LEASE: {"lease_seconds"},
    MARKERS: {"writer"},
    DELETIONS: {"writer"},
    SWEEP: {"late_files"},
}
_OPTIONAL_OF_ADOPTIONS = {
    *(f"definition.{name}" for name in _OPTIONAL_OF_TABLES),
    "instants.0.completion_time",
    "instants.0.operation",
}
_OPTIONAL |= {ADOPT: _OPTIONAL_OF_ADOPTIONS, ADOPT_DRY_RUN: _OPTIONAL_OF_ADOPTIONS}
_NULLABLE_OF_STREAMS = ("tasks", "lease_seconds", "requested_time", "checkpoint")
_MARK = "the place to be filled"


def places(value: object, at: Path = ()) -> Iterator[tuple[Path, object]]:
    """Every place below a JSON value, with its value; of a list only the first entry."""
    inside: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value[:1]))
    for key, below in inside:
        yield (*at, key), below
        yield from places(below, (*at, key))


def times(openapi: Json, tried: Operation, body: Json) -> Iterator[Path]:
    """The places of times in a body, by the OpenAPI document; also of fields that are left out."""
    described = openapi["paths"][tried.template][tried.method.lower()]["requestBody"]["content"]
    yield from _times(openapi, described["application/json"]["schema"], body, ())


def _times(openapi: Json, schema: Json, body: Any, at: Path) -> Iterator[Path]:
    if "$ref" in schema:
        schema = openapi["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if schema.get("pattern") in times_in_openapi.PATTERNS.values():
        yield at
    for part in schema.get("oneOf", []) + schema.get("anyOf", []):
        yield from _times(openapi, part, body, at)
    if isinstance(body, dict):
        for name, field in schema.get("properties", {}).items():
            yield from _times(openapi, field, body.get(name), (*at, name))
    if isinstance(body, list) and body and "items" in schema:
        yield from _times(openapi, schema["items"], body[0], (*at, 0))


def with_raw(body: Json, at: Path, raw: str) -> bytes:
    """The body as bytes, with raw text, valid JSON or not, in one place."""
    return json.dumps(replaced(body, at, _MARK)).replace(json.dumps(_MARK), raw).encode("latin-1")


def replaced(body: Any, at: Path, value: object) -> Any:
    """A copy of the body with another value in one place."""
    if not at:
        return value
    copy: Any = dict(body) if isinstance(body, dict) else list(body)
    copy[at[0]] = replaced(copy[at[0]] if at[1:] else None, at[1:], value)
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
    """Each field of the operation's body with an invalid value."""
    assert operation.body is not None
    for at, value in places(operation.body("20260101000000000")):
        nullable = (
            at[-1]
            in (
                "ordering_field",
                "plan",
                "instant",
                "expected_schema_version",
                "as_of",
                "partition_paths",
                "completion_time",
                "foreign_files",
                "restored_checkpoint",
            )
            or str(at[-1]).startswith("retain_")
            or (operation.method == "PATCH" and at == ("name",))
            or (operation.template.endswith("scan") and at == ("filter",))
            or (operation.template.startswith(ONE_STREAM) and at[-1] in _NULLABLE_OF_STREAMS)
            or (
                operation.template.endswith(
                    ("heartbeat", "inflight", "complete", "write-stats", "markers", "deletions")
                )
                and at[-1] in ("lease_seconds", "writer", "schema_version", "cleaned_before")
            )
        )
        for raw in _WRONG[type(value)]:
            # A checkpoint may be -1: the one before the first barrier.
            if not (raw == "null" and nullable) and not (raw == "-1" == str(value)):
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
