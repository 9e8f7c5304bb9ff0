"""What Spark says when it fails, without Java's traces: most of it crosses to Python as text alone."""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

FAILURES: Final = (PySparkException, Py4JJavaError)
"""What a call of Spark may raise: PySpark turns some of Java's exceptions into its own, and passes others."""

_MESSAGE_CHARS_MAX = 2_000
_CALL = re.compile(r"\AAn error occurred while calling [^\n]*\n: ")
_CLASS = re.compile(r"\A(?:[\w$]+\.)+[\w$]+(?:: |$)")
_CONDITION = re.compile(r"\A\[[A-Z0-9_.]+\] ")
_STATE = re.compile(r"\s*SQLSTATE: \w+")
_CAUSE = re.compile(r"^Caused by: ", re.MULTILINE)
_TRACE = re.compile(r"\n\s+at |\n\s*JVM stacktrace|\n\s+\.\.\. \d+ more")


def said_in(exc: BaseException) -> str:
    """What failed, and the innermost cause of it."""
    what, *causes = _CAUSE.split(_CALL.sub("", str(exc)))
    told = _message_of(what)
    if causes and (why := _message_of(causes[-1])) not in told:
        # Further lines of a failure with a cause advise to read less strictly.
        told = f"{told.splitlines()[0].rstrip('.')}: {why}"
    return told[:_MESSAGE_CHARS_MAX]


def _message_of(text: str) -> str:
    """The message of one exception: without its class, its condition and its trace."""
    message = _TRACE.split(text, maxsplit=1)[0].strip()
    plain = _STATE.sub("", _CONDITION.sub("", _CLASS.sub("", message)))
    return plain.strip().rstrip(".") or message
