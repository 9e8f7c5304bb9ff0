"""Failures of batches as Spark gets them. Without Spark."""

from __future__ import annotations

import traceback

from chronolake_spark import errors
from chronolake_spark.driver import spark_failures
from chronolake_spark.stream import failures

CALL = "py4j.protocol.Py4JJavaError: An error occurred while calling"


def raised(failure: Exception, cause: Exception) -> Exception:
    """The failure with its cause, as a write raises it."""
    try:
        raise failure from cause
    except Exception as exc:  # what was just raised
        return exc


def test_an_interruption_has_a_short_text_that_spark_knows() -> None:
    java = RuntimeError(f"{CALL} o1.save.\n: java.lang.InterruptedException\n" + "\tat java.base\n" * 5_000)
    shown = failures.of(raised(errors.SparkJobFailed("it was interrupted"), java))
    text = "".join(traceback.format_exception(shown))
    assert text.endswith(f"{CALL} Spark: java.lang.InterruptedException\n")
    assert len(text) < 500


def test_a_cancelled_job_of_the_query_keeps_its_group() -> None:
    java = RuntimeError(
        f"{CALL} o1.save\n: Job 7 cancelled part of cancelled job group 5bd3-c5a1\n\tat java.base"
    )
    shown = str(failures.of(raised(errors.SparkJobFailed("it was cancelled"), java)))
    assert shown.endswith(
        "org.apache.spark.SparkException: Job 7 cancelled part of cancelled job group 5bd3-c5a1"
    )


def test_a_rollback_says_that_the_query_was_stopped() -> None:
    java = RuntimeError(f"{CALL} o1.save.\n: java.lang.InterruptedException\n")
    stopped = raised(errors.SparkJobFailed("it was interrupted"), java)
    assert failures.reason_of(stopped) == "the query was stopped while it wrote the batch"
    assert failures.reason_of(errors.DuplicateKeys("a key")) == "DuplicateKeys: a key"


def test_a_write_in_a_function_of_the_users_own_says_that_it_was_interrupted() -> None:
    java = RuntimeError(
        "An error occurred while calling o1.save.\n: java.lang.InterruptedException\n\tat java.base"
    )
    assert spark_failures.message_of(java) == "the job was interrupted, as when a query is stopped"


def test_a_long_trace_of_python_keeps_the_reason_at_its_end() -> None:
    lines = ["Traceback (most recent call last):", *['  File "a.py", line 1, in f'] * 500, "OSError: no room"]
    message = spark_failures.message_of(RuntimeError("\n".join(lines) + "\n\tat org.apache.spark"))
    assert message.splitlines()[-1] == "OSError: no room"
    assert len(message) < 2_010


def test_an_error_of_chronolake_is_raised_as_it_is() -> None:
    failure = raised(errors.DuplicateKeys("a key is there"), RuntimeError(f"{CALL} o1.save"))
    assert failures.of(failure) is failure


def test_no_other_failure_has_the_text_that_spark_searches() -> None:
    shown = failures.of(RuntimeError(f"{CALL} o1.save.\n" + "\tat java.base\n" * 5_000))
    assert isinstance(shown, RuntimeError)
    assert CALL not in str(shown)
