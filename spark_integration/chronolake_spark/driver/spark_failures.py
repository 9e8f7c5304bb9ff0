"""The messages of Spark's exceptions without Java's traces: most failures reach Python only as text."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import re
from collections.abc import Iterator
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from chronolake_spark.driver import spark_internals

EXCEPTIONS: Final = (PySparkException, Py4JJavaError)
"""The exceptions that a call of Spark raises: PySpark converts some of Java's exceptions, and passes others."""

JVM_GONE: Final = (PySparkException, Py4JError, OSError)
"""The exceptions of a call when the JVM stops or has stopped, as after a signal to the process group."""

_MESSAGE_CHARS_MAX = 2_000
_IS_UNLOGGED: Final = contextvars.ContextVar("chronolake_unlogged", default=False)
_CALL = re.compile(r"\AAn error occurred while calling [^\n]*\n: ")
_CLASS = re.compile(r"\A(?:[\w$]+\.)+[\w$]+(?:: |$)")
_CONDITION = re.compile(r"\A\[[A-Z0-9_.]+\] ")
_STATE = re.compile(r"\s*SQLSTATE: \w+")
_CAUSE = re.compile(r"^Caused by: ", re.MULTILINE)
_INTERRUPTION: Final = "java.lang.InterruptedException"
_TRACE = re.compile(r"\n\s+at |\n\s*JVM stacktrace|\n\s+\.\.\. \d+ more")


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Leave out of the log the errors that PySpark logs, trace and all, before it raises them.

    For calls whose errors are raised again in plain words.
    """
    for name in spark_internals.QUERY_LOGGERS:
        # Adding it again changes nothing.
        PySparkLogger.getLogger(name).addFilter(_FILTER)
    token = _IS_UNLOGGED.set(True)
    try:
        yield
    finally:
        _IS_UNLOGGED.reset(token)


class _Filter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:  # type: ignore[explicit-override]
        """Whether the record is logged."""
        return not _IS_UNLOGGED.get()


_FILTER: Final = _Filter()


def message_of(exc: BaseException) -> str:
    """The message of the failure, followed by that of its innermost cause.

    Of a long one the middle is left out: the last line of a trace of Python has the reason.
    """
    failure, *causes = _CAUSE.split(_CALL.sub("", str(exc)))
    message = _plain_message(failure)
    if causes and (cause := _plain_message(causes[-1])) not in message:
        # Further lines of a failure with a cause advise to read less strictly.
        message = f"{message.splitlines()[0].rstrip('.')}: {cause}"
    if len(message) > _MESSAGE_CHARS_MAX:
        half = _MESSAGE_CHARS_MAX // 2
        return f"{message[:half]}\n…\n{message[-half:]}"
    return message


def first_line(exc: BaseException) -> str:
    """The first line of the message, without the plan or the position of an expression."""
    return message_of(exc).partition("\n")[0].partition("; line ")[0].rstrip(".")


def _plain_message(text: str) -> str:
    """The message of one exception, without its class, its condition and its trace."""
    message = _TRACE.split(text, maxsplit=1)[0].strip()
    plain = _STATE.sub("", _CONDITION.sub("", _CLASS.sub("", message)))
    if message == _INTERRUPTION:
        return "the job was interrupted, as when a query is stopped"
    return plain.strip().rstrip(".") or message
