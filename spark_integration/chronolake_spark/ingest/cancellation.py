"""The end of an ingest by a signal."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer
from rich.console import Console

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIGNAL_EXIT = 128
_CANCEL_SECONDS = 0.1
_JOIN_SECONDS = 10.0


class Cancellation:
    """Ends an ingest by SIGTERM or Ctrl-C as by a failure: its jobs are cancelled, its instant is rolled back.

    A scheduler stops a process by SIGTERM. By default Python ends at once, and the instant stays until its
    lease ends. With a session the handler cannot raise an exception: the connection to Java would keep an
    unread answer, and the next call would read it as its own. A second signal has the effect that it had before
    the ingest.

    At the end of an ingest that was stopped, ``outcome`` is printed: what the ingest did, given ``commits``.
    """

    def __init__(self, spark: SparkSession | None, console: Console) -> None:
        self.commits: int = 0
        self.outcome: Callable[[int], str] = lambda _: "Nothing was loaded."
        self._spark = spark
        self._console = console
        self._asked: int | None = None
        self._ended = threading.Event()
        self._cancelling: threading.Thread | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._cancelling is not None:
            self._cancelling.join(_JOIN_SECONDS)  # Otherwise it would call a stopped session.
        self._restore()
        if self._asked is not None:
            self._console.print(f"Interrupted. {self.outcome(self.commits)}", markup=False)
        self.check()

    def check(self) -> None:
        """End the command, if a signal has requested it."""
        if self._asked is not None:
            raise typer.Exit(SIGNAL_EXIT + self._asked) from None

    def _stop(self, number: int, _frame: object) -> None:
        self._asked = number
        if self._spark is None:
            self._restore()
            raise KeyboardInterrupt
        # The signal may have ended the JVM too. Py4J logs that by the root logger, with a trace.
        logging.getLogger().addFilter(_is_not_of_py4j)
        self._restore()
        self._cancelling = threading.Thread(target=self._cancel, daemon=True)
        self._cancelling.start()

    def _cancel(self) -> None:
        # Here and not above: it imports Spark, which takes a second.
        from chronolake_spark.driver import spark_failures  # noqa: PLC0415

        assert self._spark is not None, "without a session the signal raises"
        # Repeated, because a job may be about to start.
        with contextlib.suppress(*spark_failures.JVM_GONE):
            while not self._ended.wait(_CANCEL_SECONDS):
                self._spark.sparkContext.cancelAllJobs()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module not in ("java_gateway", "clientserver")
