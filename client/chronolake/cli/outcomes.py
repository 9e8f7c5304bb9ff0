"""``chronolake outcome``."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from chronolake.cli import context, output
from chronolake_model.events import Outcome


def outcome(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="The request's idempotency key.", show_default=False)
    ],
) -> None:
    """Show the recorded outcome of a request: its answer or its refusal.

    "Not found" means that the request has not been executed so far. It may still be executed later.
    """
    try:
        with context.client() as client:
            recorded = client.outcome(key)
    except ValueError as exc:
        raise typer.BadParameter(str(exc), param_hint="KEY") from exc
    output.show(recorded, lambda console: _print(console, recorded))


def _print(console: Console, outcome: Outcome) -> None:
    recorded = "-" if outcome.recorded_at is None else f"{outcome.recorded_at:%Y-%m-%d %H:%M:%S.%f} UTC"
    pairs = (
        ("request", outcome.request_id),
        ("status", str(outcome.status)),
        ("table", outcome.table),
        ("version", outcome.version),
        ("recorded", recorded),
    )
    output.print_table(console, output.pairs_of(pairs))
    if outcome.answer is not None:
        # Lines are not wrapped, because wrapped lines would not be valid JSON.
        console.print(Text(json.dumps(outcome.answer, indent=2, ensure_ascii=False)), soft_wrap=True)
