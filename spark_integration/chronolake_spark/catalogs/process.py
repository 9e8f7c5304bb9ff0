"""The Python process of the catalog: it answers the requests of the Java part until its input ends.

    python -m chronolake_spark.catalogs.process

The first line of the standard input says how Java's objects, as sessions and frames, are reached through Py4J.
Each further line is a request, in JSON; its answer is a line on the standard output. Requests run side by side,
each in a thread.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from typing import Any, Final, TextIO

import msgspec
from pyspark.errors import PySparkException, PythonException

from chronolake.errors import ChronolakeError
from chronolake_model.decoding import decode
from chronolake_spark.catalogs import operations, registering
from chronolake_spark.catalogs.sessions import Sessions
from chronolake_spark.driver import spark_failures

_FORGET: Final = "forget"
"""The one field of a line that is no request: the name of a session that Java has let go of."""


class _Gateway(msgspec.Struct, frozen=True):
    """The first line of the input: where Java's objects are reached, and the secret for it.

    ``build`` says what the jar was made of; a jar of an earlier release does not say it.
    """

    port: int
    secret: str
    build: str = ""


def main() -> None:
    """Answer requests until the input ends."""
    # In a terminal, Ctrl-C stops a statement of Spark's shell, and not this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = _own_output()
    gateway = decode(sys.stdin.readline(), _Gateway)
    sessions = Sessions(gateway.port, gateway.secret)
    lock = threading.Lock()

    def answer(line: str) -> None:
        request = decode(line, dict[str, Any])
        if _FORGET in request:
            sessions.forget(request[_FORGET])
            return
        text = msgspec.json.encode(
            {"number": request["number"], **_answered(request, sessions, gateway.build)}
        ).decode()
        with lock:
            answers.write(text + "\n")
            answers.flush()

    for line in sys.stdin:
        # Not of a bounded pool: a write waits for scans that Spark plans for its frame.
        threading.Thread(target=answer, args=(line,), daemon=True).start()
    # Java has ended, or has let go of this process: nobody waits for an answer.
    os._exit(0)


def _own_output() -> TextIO:
    """The standard output, for answers alone: what others print goes to the error output."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _answered(request: dict[str, Any], sessions: Sessions, build: str) -> dict[str, Any]:
    try:
        registering.refuse_another_jar(build)
        return {"result": operations.run(request, sessions)}
    except ChronolakeError as error:
        return _refusal(error.code, str(error))
    except (ValueError, TypeError) as error:
        return _refusal("invalid-option", str(error))
    except PySparkException as error:
        return _refusal("spark-job-failed", _reason(error))
    except Exception as error:
        traceback.print_exc()
        return _refusal("internal-error", f"{type(error).__name__}: {error}")


def _reason(error: PySparkException) -> str:
    """The first line of the message; of a failed worker the last one, which has the exception."""
    if isinstance(error, PythonException):
        lines = [line for line in spark_failures.message_of(error).splitlines() if line.strip()]
        return lines[-1] if lines else str(error)
    return spark_failures.first_line(error)


def _refusal(code: str | None, message: str) -> dict[str, Any]:
    # SQL shows one line.
    return {"refusal": {"code": code or "refused", "message": " ".join(message.split())}}


if __name__ == "__main__":
    main()
