"""Every operation of the REST API, and the ways to get its requests wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from typing_extensions import override

from chronolake_model.file_names import base_file_name, bucket_file_id
from tests.server.rest import Json, marker, table_body, write_stat

TABLE = "shop.orders"
NAMESPACE = "shop"
NEVER_USED = "never-used"
"""An idempotency key."""
STREAM = "job"
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
STREAMS_OF_TABLE = "/v1/tables/{table}/streams"
ONE_STREAM = f"{STREAMS_OF_TABLE}/{{stream}}"
READER_HEARTBEAT = f"{READERS}/{{lease_id}}/heartbeat"
PUBLICATION = "/v1/tables/{table}/publication"
PUBLICATION_LEASE = f"{PUBLICATION}/lease"
INFLIGHT = "/v1/tables/{table}/instants/{requested_time}/inflight"
ADOPT = "/v1/tables/adopt"
ADOPT_DRY_RUN = "/v1/tables/adopt/dry-run"
BEGINNING_OF_LOG = "WyIwIiwwXQ"
"""The cursor of an empty log of all tables."""
FILE_GROUP: Json = {"partition_path": "", "file_id": bucket_file_id(0)}


def adoption_body() -> Json:
    """The body of the adoption of a table with one instant."""
    instant = {
        "requested_time": "20260101000000000",
        "completion_time": "20260101000001000",
        "action": "commit",
        "operation": "insert",
    }
    definition = table_body("shop.other", index={"type": "simple"})
    return {"definition": definition, "instants": [instant], "writer": "adopter"}


@dataclass(frozen=True)
class Operation:
    """One method at one path of the OpenAPI document, with a body that is valid, if it takes one."""

    method: str
    template: str
    body: Callable[[str], Json] | None = None
    """Given the requested time of an inflight instant."""
    query: str = ""
    """The required query parameters of the operation."""

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
        stream: str = STREAM,
    ) -> str:
        """The path with its parameters filled in unquoted: the caller quotes unusual ones."""
        path = (
            self.template.replace("{table}", table)
            .replace("{namespace}", namespace)
            .replace("{requested_time}", requested_time)
            .replace("{key}", key)
            .replace("{schema_version}", schema_version)
            .replace("{lease_id}", lease_id)
            .replace("{stream}", stream)
        )
        return f"{path}?{self.query}" if self.query else path


OPERATIONS = (
    Operation("GET", "/health"),
    Operation("GET", "/ready"),
    Operation("GET", "/v1/health"),
    Operation("GET", "/v1/time"),
    Operation("GET", "/v1/namespaces"),
    Operation("POST", "/v1/namespaces", lambda _: {"name": "other", "properties": {"owner": "me"}}),
    Operation("GET", "/v1/namespaces/{namespace}"),
    Operation("DELETE", "/v1/namespaces/{namespace}"),
    Operation("GET", "/v1/tables"),
    Operation("GET", "/v1/dropped-tables"),
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
    Operation(
        "POST",
        "/v1/tables/dry-run",
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
    *(Operation("POST", template, lambda _: adoption_body()) for template in (ADOPT, ADOPT_DRY_RUN)),
    Operation("GET", "/v1/tables/{table}"),
    Operation("DELETE", "/v1/tables/{table}"),
    Operation(
        "PATCH",
        "/v1/tables/{table}",
        lambda _: {"name": "shop.renamed", "set": {"owner": "me"}, "unset": ["team"]},
    ),
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
                write_stat(
                    requested_time,
                    updates=1,
                    deletes=1,
                    column_stats=[{"field_id": 1, "nulls": 0}],
                    has_field_ids=True,
                )
            ],
            "writer": "w",
        },
    ),
    Operation(
        "POST",
        "/v1/tables/{table}/instants/{requested_time}/complete",
        lambda requested_time: {
            "write_stats": [
                write_stat(
                    requested_time,
                    updates=1,
                    deletes=1,
                    column_stats=[{"field_id": 1, "nulls": 0}],
                    has_field_ids=True,
                )
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
            "late_files": [
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
    Operation("GET", STREAMS_OF_TABLE),
    Operation("GET", ONE_STREAM),
    Operation(
        "POST",
        f"{ONE_STREAM}/open",
        lambda _: {"writer": "w", "lease_seconds": 5, "tasks": 2, "restored_checkpoint": 3},
    ),
    Operation("POST", f"{ONE_STREAM}/heartbeat", lambda _: {"epoch": 1, "lease_seconds": 5}),
    Operation(
        "POST",
        f"{ONE_STREAM}/instants",
        lambda _: {
            "epoch": 1,
            "task": "0",
            "checkpoint": -1,
            "attempt": 0,
            "operation": "upsert",
            "blocking": True,
        },
    ),
    Operation(
        "POST",
        f"{ONE_STREAM}/write-metadata",
        lambda requested_time: {
            "epoch": 1,
            "task": "0",
            "checkpoint": -1,
            "attempt": 0,
            "requested_time": requested_time,
            "write_stats": [write_stat(requested_time)],
            "last_batch": True,
            "end_of_input": True,
            "bootstrap": True,
        },
    ),
    Operation(
        "POST",
        f"{ONE_STREAM}/complete",
        lambda _: {"epoch": 1, "checkpoint": 1, "extra_metadata": {"offset": "1"}},
    ),
    Operation("POST", f"{ONE_STREAM}/abort", lambda _: {"epoch": 1, "checkpoint": 1, "reason": "timeout"}),
    Operation(
        "POST",
        f"{ONE_STREAM}/restart-task",
        lambda _: {"epoch": 1, "task": "0", "restored_checkpoint": 1},
    ),
    Operation("POST", f"{ONE_STREAM}/close", lambda _: {"epoch": 1, "reason": "done"}),
    Operation("GET", PUBLICATION),
    Operation("POST", PUBLICATION_LEASE, lambda _: {"publisher": "p", "lease_seconds": 5}),
    Operation("GET", f"{PUBLICATION}/partitions"),
    Operation("GET", f"{PUBLICATION}/steps"),
    Operation("GET", f"{PUBLICATION}/files"),
    Operation(
        "POST",
        PUBLICATION,
        lambda _: {"publisher": "p", "epoch": 1, "version": 1, "foreign_files": ["x"], "release": True},
    ),
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
    Operation(
        "POST",
        "/v1/tables/{table}/file-groups",
        lambda requested_time: {
            "file_groups": [{"partition_path": "", "file_id": "f"}],
            "buckets": [{"partition_path": "", "bucket": 0}],
            "as_of": requested_time,
            "limit": 10,
        },
    ),
    Operation("GET", "/v1/tables/{table}/file-groups/history", query=f"file_id={bucket_file_id(0)}"),
    Operation("GET", "/v1/tables/{table}/partitions"),
    Operation("GET", "/v1/tables/{table}/replaced-file-groups"),
    Operation("GET", "/v1/tables/{table}/pending-file-groups"),
    Operation("GET", "/v1/events"),
    Operation("GET", "/v1/tables/{table}/cursor-time", query=f"after={BEGINNING_OF_LOG}"),
    Operation("GET", "/v1/outcomes/{key}"),
)
STREAMS = (Operation("GET", "/v1/events/stream"),)
"""Answers that do not end by themselves; ``test_feed.py`` tries them."""
WITH_BODY = tuple(operation for operation in OPERATIONS if operation.body is not None)
BODY_OPTIONAL = (HEARTBEAT, INFLIGHT)
"""Operations with an optional body: an empty one is ``{}``."""
OF_A_TABLE = tuple(operation for operation in OPERATIONS if "{table}" in operation.template)
OF_A_NAMESPACE = tuple(operation for operation in OPERATIONS if "{namespace}" in operation.template)
OF_AN_INSTANT = tuple(operation for operation in OPERATIONS if "{requested_time}" in operation.template)
NO_COMMANDS = (
    "/deletable",
    "/dry-run",
    *("/conflicts", "/completion-times", "/scan", "/file-groups", "/markers", "/clean-plans"),
    *("/readers", "/{lease_id}", "/{lease_id}/heartbeat", "/publication", "/publication/lease"),
)
"""Ends of the paths of requests besides GET that are no commands."""
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
    # The log, and what is published, continue behind an event or a partition.
    and operation.template != "/v1/events"
    and not operation.template.startswith(f"{PUBLICATION}/")
)


def quoted(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")
