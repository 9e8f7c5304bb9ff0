"""Tables whose services are planned: merge-on-read ones with log files, others with small files."""

from __future__ import annotations

import httpx

from chronolake_model.file_names import base_file_name
from tests.server import rest
from tests.server.rest import Json, Table, log_stat, succeeded, write_stat


def merge_on_read(http: httpx.Client, **properties: str) -> Table:
    """A merge-on-read table with a base file in the buckets 0 and 1."""
    table = rest.make_table(http, type="merge_on_read", properties=named(properties))
    began = table.begun(action="deltacommit")
    succeeded(table.complete(began, write_stat(began), write_stat(began, 1)))
    return table


def append(table: Table, *buckets: int, times: int = 1) -> None:
    """Delta commits, each of which appends a log file to these buckets."""
    for _ in range(times):
        began = table.begun(action="deltacommit")
        succeeded(table.complete(began, *(log_stat(began, bucket) for bucket in buckets or (0,))))


def named(properties: dict[str, str]) -> dict[str, str]:
    """Properties with underscores for dots, so that they are keywords."""
    return {name.replace("__", "-").replace("_", "."): value for name, value in properties.items()}


def simple(http: httpx.Client, **properties: str) -> Table:
    """A copy-on-write table without buckets, whose writers name their file groups."""
    return rest.make_table(
        http, index={"type": "simple"}, partition_fields=["day"], properties=named(properties)
    )


def write_small(table: Table, *partitions: str, size_bytes: int = 1_000, action: str = "commit") -> str:
    """A commit that writes a new small file group into each partition; gives its requested time."""
    began = table.begun(action=action)
    stats = [small_stat(began, number, path, size_bytes) for number, path in enumerate(partitions)]
    succeeded(table.complete(began, *stats))
    return began


def rewrite(table: Table, group: Json) -> None:
    """A commit that writes a new base file into a file group, as an update does."""
    began = table.begun()
    name = base_file_name(group["file_id"], "0-0-0", began)
    succeeded(table.complete(began, write_stat(began, file_name=name, size_bytes=1_000, **group)))


def small_stat(requested_time: str, number: int, partition_path: str, size_bytes: int = 1_000) -> Json:
    """The write stat of a file group of its own."""
    file_id = f"{requested_time}-{number}"
    return write_stat(
        requested_time,
        partition_path=partition_path,
        file_id=file_id,
        file_name=base_file_name(file_id, "0-0-0", requested_time),
        size_bytes=size_bytes,
    )


def planned(table: Table, **body: object) -> list[Json]:
    """The instants that a request for plans recorded."""
    instants: list[Json] = succeeded(table.plan_services(**body))["instants"]
    return instants


def compact(table: Table, instant: Json) -> Json:
    """Execute a planned compaction."""
    requested = instant["requested_time"]
    succeeded(table.inflight(requested))
    groups = instant["plan"]["file_groups"]
    stats = [
        write_stat(
            requested,
            partition_path=group["partition_path"],
            file_id=group["file_id"],
            file_name=base_file_name(group["file_id"], "0-0-0", requested),
        )
        for group in groups
    ]
    return succeeded(table.complete(requested, *stats))


def cluster(table: Table, instant: Json) -> Json:
    """Execute a planned clustering: one new file group in place of those of the plan."""
    requested = instant["requested_time"]
    succeeded(table.inflight(requested))
    groups = instant["plan"]["file_groups"]
    return succeeded(table.complete(requested, clustered(table, instant), replaced_file_groups=groups))


def clustered(table: Table, instant: Json) -> Json:
    """The write stat of one file with all records of a planned clustering."""
    groups = instant["plan"]["file_groups"]
    stat = small_stat(instant["requested_time"], 0, groups[0]["partition_path"], 1_000 * len(groups))
    return stat | {"records": base_records(table, groups)}


def base_records(table: Table, groups: list[Json]) -> int:
    """The records in the base files of file groups."""
    slices = succeeded(table.http.get(f"/v1/tables/{table.name}/snapshot"))["slices"]
    return sum(
        slice_["base_file"]["records"]
        for slice_ in slices
        if slice_["base_file"] and {name: slice_[name] for name in ("partition_path", "file_id")} in groups
    )


def messages(answer: Json, service: str, reason: str) -> list[str]:
    """The messages of a service that is held for a reason, in an answer."""
    held = [held for held in answer["held"] if (held["service"], held["reason"]) == (service, reason)]
    return [held["message"] for held in held]


def reasons(answer: Json, service: str) -> list[str]:
    """Why a service is held, in an answer."""
    return [held["reason"] for held in answer["held"] if held["service"] == service]


def give_back(table: Table, requested_time: str, reason: str = "", writer: str = "planner") -> httpx.Response:
    """Return a plan whose execution has failed."""
    path = f"/v1/tables/{table.name}/instants/{requested_time}/requested"
    return table.http.post(path, json={"writer": writer, "reason": reason}, headers=rest.keyed(rest.new_key()))
