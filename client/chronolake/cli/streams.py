"""``chronolake streams``."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console

from chronolake.cli import context, options, output
from chronolake_model.streams import Stream


def streams(table: options.TableArgument) -> None:
    """List the streams of a table: who has them open, and what waits for an acknowledgement.

    A stream whose lease has ended keeps files that may be in a complete checkpoint until the time shown,
    or until its job starts again.
    """
    with context.client() as client:
        listed = list(client.table(table).streams())
    columns = (
        "stream",
        "state",
        "epoch",
        "writer~",
        "acknowledged",
        "pending",
        "oldest",
        "files",
        "bytes",
        "until",
    )
    rows = (
        (
            stream.name,
            _state(stream),
            stream.epoch,
            stream.writer,
            stream.acknowledged_checkpoint,
            len(stream.checkpoints),
            stream.checkpoints[0].checkpoint if stream.checkpoints else None,
            stream.buffered_files,
            stream.buffered_bytes,
            stream.waits_until.isoformat(timespec="seconds") if _waits(stream) and stream.waits_until else None,
        )
        for stream in listed
    )
    left_out_first = ("bytes", "files", "oldest")

    def render(console: Console) -> None:
        output.print_table(console, output.fitting_table(console, columns, rows, left_out_first))

    output.show({"streams": listed}, render)


def _state(stream: Stream) -> str:
    if not stream.is_open:
        return "closed"
    return "expired" if _is_expired(stream) else "open"


def _waits(stream: Stream) -> bool:
    return _is_expired(stream) or not stream.is_open


def _is_expired(stream: Stream) -> bool:
    return stream.lease_expires_at <= datetime.now(UTC)
