"""The tree of errors: each of the server's codes has its class, and a newer server's still fits in."""

from __future__ import annotations

import pickle

import pytest

from chronolake import errors
from chronolake_model.problems import Problem, ProblemCode


def problem(code: str, status: int) -> Problem:
    return Problem(
        type="about:blank",
        title="No",
        status=status,
        code=code,
        detail="because",
        context={"state": "completed"},
    )


@pytest.mark.parametrize("code", list(ProblemCode))
def test_every_code_of_the_server_is_mapped_by_its_name_and_not_by_its_status(code: ProblemCode) -> None:
    # No server says 299, so a code that were mapped by its status only would be a ServerError.
    assert errors.class_of(problem(code, 299)).__name__ == code.class_name


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ProblemCode.TABLE_NOT_FOUND, errors.TableNotFound),
        (ProblemCode.NAMESPACE_NOT_FOUND, errors.NamespaceNotFound),
        (ProblemCode.INSTANT_NOT_FOUND, errors.InstantNotFound),
        (ProblemCode.WRITE_CONFLICT, errors.WriteConflict),
        (ProblemCode.LEASE_LIVE, errors.LeaseLive),
        (ProblemCode.ILLEGAL_TRANSITION, errors.IllegalTransition),
        (ProblemCode.INSTANT_ROLLED_BACK, errors.InstantRolledBack),
        (ProblemCode.OVERLOADED, errors.Overloaded),
        (ProblemCode.DATABASE_UNAVAILABLE, errors.DatabaseUnavailable),
        (ProblemCode.INTERNAL_ERROR, errors.InternalError),
    ],
)
def test_a_code_gets_the_class_that_is_named_after_it(
    code: ProblemCode, expected: type[errors.ChronolakeError]
) -> None:
    assert type(errors.error_of(problem(code, code.status))) is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, errors.RequestRefused),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, errors.Conflict),
        (429, errors.ServerUnavailable),
        (500, errors.ServerError),
        (503, errors.ServerUnavailable),
        (599, errors.ServerError),
    ],
)
def test_a_code_that_only_a_newer_server_knows_goes_by_its_status(
    status: int, expected: type[errors.ChronolakeError]
) -> None:
    error = errors.error_of(problem("savepoint-pinned", status))

    assert type(error) is expected
    assert error.code == "savepoint-pinned"


def test_an_error_carries_the_problem_its_code_and_its_context() -> None:
    error = errors.error_of(problem(ProblemCode.ILLEGAL_TRANSITION, 409))

    assert error.problem == problem(ProblemCode.ILLEGAL_TRANSITION, 409)
    assert error.code == "illegal-transition"
    assert error.context == {"state": "completed"}
    assert str(error) == "No: because"


def test_an_error_without_an_answer_has_no_problem_but_a_code() -> None:
    error = errors.ConnectionFailed("no answer from http://127.0.0.1:9")

    assert error.problem is None
    assert error.code == "connection-failed"
    assert error.context == {}


def test_an_error_survives_the_way_from_one_process_to_another() -> None:
    error = errors.error_of(problem(ProblemCode.WRITE_CONFLICT, 409))

    arrived = pickle.loads(pickle.dumps(error))

    assert type(arrived) is errors.WriteConflict
    assert arrived.problem == error.problem
    assert str(arrived) == str(error)
