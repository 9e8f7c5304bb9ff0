"""The REST API as these tests speak it: raw requests, so that nothing of the client stands in between."""

from __future__ import annotations

import uuid
from typing import Any

import httpx

from chronolake_model.file_names import base_file_name, bucket_file_id

Json = dict[str, Any]

SCHEMA: list[Json] = [
    {"name": "id", "type": "bigint", "nullable": False},
    {"name": "day", "type": "string"},
    {"name": "name", "type": "string"},
    {"name": "at", "type": "timestamp"},
]
TIMEOUT_SECONDS = 60.0


def new_key() -> str:
    """An unused idempotency key."""
    return f"key-{uuid.uuid4()}"


def keyed(key: str) -> dict[str, str]:
    """The header that carries an idempotency key."""
    return {"Idempotency-Key": key}


def table_body(name: str, **changes: object) -> Json:
    """The body of a request for a table of four columns, unpartitioned unless ``changes`` say otherwise."""
    return {
        "name": name,
        "base_path": f"file:///lake/{name}",
        "schema": SCHEMA,
        "record_key_fields": ["id"],
    } | changes


def write_stat(requested_time: str, bucket: int = 0, partition_path: str = "", **changes: object) -> Json:
    """The write stat of the base file that a writer wrote into a bucket."""
    file_id = bucket_file_id(bucket)
    return {
        "partition_path": partition_path,
        "file_id": file_id,
        "file_name": base_file_name(file_id, "0-0-0", requested_time),
        "size_bytes": 1_000,
        "records": 10,
        "inserts": 10,
    } | changes


def log_stat(requested_time: str, bucket: int = 0, number: int = 1, partition_path: str = "") -> Json:
    """The write stat of the log file that a writer appended to a bucket."""
    name = f".{bucket_file_id(bucket)}_{requested_time}.log.{number}_0-0-0"
    return write_stat(requested_time, bucket, partition_path, file_name=name)


def marker(requested_time: str, bucket: int = 0, partition_path: str = "", kind: str = "CREATE") -> Json:
    """The marker of the base file that a writer is to write into a bucket."""
    stat = write_stat(requested_time, bucket, partition_path)
    return {"partition_path": partition_path, "file_name": stat["file_name"], "kind": kind}


class Table:
    """One table over one server: each method is one request, and gives the response as it came."""

    def __init__(self, http: httpx.Client, name: str) -> None:
        self.http = http
        self.name = name

    def begin(self, key: str | None = None, **body: object) -> httpx.Response:
        """Begin an instant, by default as the writer ``w``."""
        return self._post("instants", {"writer": "w"} | body, key)

    def begun(self, key: str | None = None, **body: object) -> str:
        """The requested time of an instant that could be begun."""
        requested_time: str = succeeded(self.begin(key, **body))["requested_time"]
        return requested_time

    def inflight(self, requested_time: str, key: str | None = None) -> httpx.Response:
        """Take an instant inflight."""
        return self._post(f"instants/{requested_time}/inflight", None, key)

    def complete(
        self, requested_time: str, *write_stats: Json, key: str | None = None, **body: object
    ) -> httpx.Response:
        """Complete an instant with these files."""
        whole = {"write_stats": list(write_stats)} | body
        return self._post(f"instants/{requested_time}/complete", whole, key)

    def stage(
        self, requested_time: str, *write_stats: Json, key: str | None = None, **body: object
    ) -> httpx.Response:
        """Stage these files."""
        whole = {"write_stats": list(write_stats)} | body
        return self._post(f"instants/{requested_time}/write-stats", whole, key)

    def staged(self, requested_time: str, *write_stats: Json) -> int:
        """The version under which these files could be staged."""
        version: int = succeeded(self.stage(requested_time, *write_stats))["version"]
        return version

    def roll_back(
        self,
        requested_time: str,
        writer: str = "w",
        reason: str = "",
        key: str | None = None,
        **body: object,
    ) -> httpx.Response:
        """Roll an instant back."""
        whole = {"writer": writer, "reason": reason} | body
        return self._post(f"instants/{requested_time}/rollback", whole, key)

    def heartbeat(self, requested_time: str, key: str | None = None, **body: object) -> httpx.Response:
        """Renew an instant's lease."""
        return self._post(f"instants/{requested_time}/heartbeat", body, key)

    def mark(self, requested_time: str, *markers: Json, **body: object) -> httpx.Response:
        """Create markers of an instant."""
        whole = {"markers": list(markers)} | body
        return self._post(f"instants/{requested_time}/markers", whole, None)

    def marked(self, requested_time: str, *markers: Json) -> list[str]:
        """The outcome of each marker of a request that must succeed."""
        outcomes: list[str] = succeeded(self.mark(requested_time, *markers))["outcomes"]
        return outcomes

    def markers(self, requested_time: str, **parameters: str | int) -> list[Json]:
        """The first page of an instant's markers."""
        page = self.http.get(f"/v1/tables/{self.name}/instants/{requested_time}/markers", params=parameters)
        listed: list[Json] = succeeded(page)["markers"]
        return listed

    def report(
        self, requested_time: str, *files: Json, key: str | None = None, **body: object
    ) -> httpx.Response:
        """Report the files of these markers as deleted."""
        named = [{name: file[name] for name in ("partition_path", "file_name")} for file in files]
        return self._post(f"instants/{requested_time}/deletions", {"files": named} | body, key)

    def deletions(self, requested_time: str) -> list[str]:
        """The names of an instant's files that were reported deleted."""
        page = succeeded(self.http.get(f"/v1/tables/{self.name}/instants/{requested_time}/deletions"))
        return [file["file_name"] for file in page["files"]]

    def delete_markers(self, requested_time: str) -> httpx.Response:
        """Delete the markers of an instant."""
        return self.http.delete(f"/v1/tables/{self.name}/instants/{requested_time}/markers")

    def plan_services(self, key: str | None = None, /, **body: object) -> httpx.Response:
        """Plan table services, by default as the writer ``planner``."""
        return self._post("services/plan", {"writer": "planner"} | body, key)

    def services(self, below: str = "") -> Json:
        """The status of the table services, or their ``/preview``."""
        return succeeded(self.http.get(f"/v1/tables/{self.name}/services{below}"))

    def state(self, requested_time: str) -> str:
        """The state that the timeline shows of an instant."""
        shown = succeeded(self.http.get(f"/v1/tables/{self.name}/instants/{requested_time}"))
        state: str = shown["state"]
        return state

    def _post(self, below: str, body: Json | None, key: str | None) -> httpx.Response:
        headers = {} if key is None else keyed(key)
        return self.http.post(f"/v1/tables/{self.name}/{below}", json=body, headers=headers)


def connect(url: str) -> httpx.Client:
    """A plain HTTP client of a server."""
    # Without certificates: they cost more than a request, and the servers of the tests need none.
    return httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS, verify=False)


def make_table(http: httpx.Client, name: str = "", **changes: object) -> Table:
    """A new table, in a new namespace unless the name says which."""
    name = name or f"ns_{uuid.uuid4().hex[:12]}.orders"
    namespace = name.partition(".")[0]
    made = http.post("/v1/namespaces", json={"name": namespace})
    assert made.status_code in (201, 409), made.text
    succeeded(http.post("/v1/tables", json=table_body(name, **changes)))
    return Table(http, name)


def succeeded(response: httpx.Response) -> Json:
    """The body of a response that must be a success."""
    assert response.status_code in (200, 201), response.text
    body: Json = response.json()
    return body


def refused(response: httpx.Response, status: int, code: str) -> Json:
    """The problem of a response that must be the refusal with this status and code."""
    assert (response.status_code, response.json().get("code")) == (status, code), response.text
    problem: Json = response.json()
    return problem
