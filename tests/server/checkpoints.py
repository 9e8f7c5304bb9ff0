"""A stream of a table over one server, as an engine's tasks and its coordinator use it."""

from __future__ import annotations

from typing import Any

import httpx

from tests.server.rest import Json, Table, log_stat, succeeded


class StreamOfTable:
    """One stream: each method is one request, and gives the response as it came."""

    def __init__(self, table: Table, name: str = "job") -> None:
        self.table = table
        self.name = name
        self.epoch = 0

    def open(self, **body: object) -> Json:
        """Open the stream; its later requests have the new epoch."""
        opened = succeeded(self.post("open", {"writer": "w"} | body))
        self.epoch = opened["epoch"]
        return opened

    def request(self, checkpoint: int, task: str = "0", **body: object) -> httpx.Response:
        """Ask for the instant of a checkpoint."""
        return self.post("instants", {"epoch": self.epoch, "task": task, "checkpoint": checkpoint} | body)

    def instant(self, checkpoint: int, task: str = "0", **body: object) -> str:
        """The requested time of the instant of a checkpoint."""
        requested_time: str = succeeded(self.request(checkpoint, task, **body))["requested_time"]
        return requested_time

    def report(self, checkpoint: int, *stats: Json, task: str = "0", **body: object) -> httpx.Response:
        """Report files of a task; without another time, into the instant that their names have."""
        time = {"requested_time": _time_of(stats[0])} if stats else {}
        whole = {"epoch": self.epoch, "task": task, "checkpoint": checkpoint, "write_stats": list(stats)}
        return self.post("write-metadata", whole | time | body)

    def reported(self, checkpoint: int, *stats: Json, task: str = "0", **body: object) -> Json:
        """The answer to a report of the last batch that must succeed."""
        return succeeded(self.report(checkpoint, *stats, task=task, **({"last_batch": True} | body)))

    def write(self, checkpoint: int, *buckets: int, task: str = "0", number: int = 1, **body: object) -> str:
        """Write a log file into each bucket, and report them as the last batch of a task; gives the instant."""
        instant = self.instant(checkpoint, task)
        self.reported(checkpoint, *(log_stat(instant, bucket, number) for bucket in buckets), task=task, **body)
        return instant

    def complete(self, checkpoint: int | None = None, **body: object) -> httpx.Response:
        """Acknowledge a checkpoint; none at the end of the input."""
        return self.post("complete", {"epoch": self.epoch, "checkpoint": checkpoint} | body)

    def completed(self, checkpoint: int | None = None, **body: object) -> list[str]:
        """The requested times of the instants that an acknowledgement completed, in their order."""
        done = succeeded(self.complete(checkpoint, **body))
        return [instant["requested_time"] for instant in done["instants"]]

    def restart(self, task: str, restored_checkpoint: int | None) -> int:
        """Restart a task alone; gives its attempt."""
        body = {"epoch": self.epoch, "task": task, "restored_checkpoint": restored_checkpoint}
        attempt: int = succeeded(self.post("restart-task", body))["attempt"]
        return attempt

    def shown(self) -> Json:
        """The stream as it stands."""
        return succeeded(self.table.http.get(f"/v1/tables/{self.table.name}/streams/{self.name}"))

    def buffer(self) -> dict[int, str]:
        """The pending instants by checkpoint."""
        checkpoints = self.shown()["checkpoints"]
        return {checkpoint["checkpoint"]: checkpoint["requested_time"] for checkpoint in checkpoints}

    def post(self, below: str, body: dict[str, Any]) -> httpx.Response:
        """Send a request of the stream."""
        return self.table.http.post(f"/v1/tables/{self.table.name}/streams/{self.name}/{below}", json=body)


def live_logs(table: Table) -> list[tuple[str, str]]:
    """The log files that a snapshot shows: their file groups' first eight digits, and their instants."""
    snapshot = succeeded(table.http.get(f"/v1/tables/{table.name}/snapshot"))
    return sorted(
        (file_slice["file_id"][:8], log["requested_time"])
        for file_slice in snapshot["slices"]
        for log in file_slice["log_files"]
    )


def _time_of(stat: Json) -> str:
    name: str = stat["file_name"]
    return (
        name.split("_")[1].partition(".")[0] if name.startswith(".") else name.split("_")[2].partition(".")[0]
    )
