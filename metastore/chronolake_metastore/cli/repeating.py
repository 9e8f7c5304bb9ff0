"""A command that does its work again and again until it is stopped, and survives outages."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

import msgspec
import typer

from chronolake_metastore import errors

RETRY_SECONDS: Final = 1.0
"""The pause after a first failure; each further one doubles it."""
RETRY_SECONDS_MAX: Final = 300.0
SIGNAL_SECONDS: Final = 0.2
"""How often to look for a signal."""


class Repeated(msgspec.Struct, frozen=True):
    """A part of the work; ``run`` gives the line that says what it did."""

    name: str
    run: Callable[[], str]


def repeat(
    steps: Sequence[Repeated], every_seconds: float, sleep: Callable[[float], None] = time.sleep
) -> NoReturn:
    """Run the steps every so often, without end. After a failure all are tried again, after a longer pause."""
    failures = 0
    while True:
        began = time.monotonic()
        failure = _run(steps)
        if failure is None:
            failures = 0
            sleep(max(every_seconds - (time.monotonic() - began), 0))
            continue
        pause = min(RETRY_SECONDS * 2.0**failures, RETRY_SECONDS_MAX, every_seconds)
        failures = min(failures + 1, 20)
        typer.echo(f"{failure}; trying again in {pause:g} s", err=True)
        sleep(pause)


def _run(steps: Sequence[Repeated]) -> str | None:
    """Run the steps until one fails; gives the failure."""
    for step in steps:
        try:
            typer.echo(f"{step.name}: {step.run()}")
        except errors.ConfigurationError as exc:
            return f"{step.name} failed: {exc}"
        except errors.Unavailable as exc:
            reason = exc.context.get("reason", "")
            return f"{step.name} failed: {exc.detail}{f' ({reason})' if reason else ''}"
    return None


def until_stopped(work: Callable[[], object]) -> None:
    """Do the work until it ends, or SIGTERM or Ctrl-C arrives, which ends the process at once.

    The work runs in a thread, because a call of object storage does not return for a signal. Its temporary
    files are removed. It must be safe against kills.
    """
    code, is_stopped = 0, False

    def body() -> None:
        nonlocal code
        try:
            work()
        except BaseException:
            # The temporary files that it works with are being removed.
            if is_stopped:
                return
            # A bug. Python ends with 1 after it, which verify would mean by a finding.
            code = 2
            traceback.print_exc()

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    thread = threading.Thread(target=body, daemon=True)
    with tempfile.TemporaryDirectory(prefix="chronolake-archive-", ignore_cleanup_errors=True) as folder:
        tempfile.tempdir = folder
        try:
            thread.start()
            # Python may go to sleep without having seen a signal that has just arrived.
            while thread.is_alive():
                thread.join(SIGNAL_SECONDS)
        except KeyboardInterrupt:
            is_stopped = True
            typer.echo("stopped")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
