"""Results and refusals: each dialect renders them, and a repeated request gets its first answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import psycopg
import pytest

from chronolake_metastore import errors
from chronolake_metastore.api.v1 import rendering
from chronolake_metastore.commands.group import Result
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import results
from chronolake_metastore.domain.context import Dialect
from chronolake_metastore.domain.instants import BeginInstant
from chronolake_metastore.domain.results import AnyRecorded, InstantResult, Refused
from chronolake_model.times import format_time
from tests.store import tampering
from tests.store.history import History, completion

TABLE = "shop.orders"
BEGIN = BeginInstant(TABLE, "w")


class Spoken:
    """A dialect of sentences."""

    name = "spoken"

    def render(self, recorded: AnyRecorded, request_id: str) -> bytes:
        """A sentence on an instant or on a refusal."""
        match recorded:
            case InstantResult(of=of, is_new=is_new):
                return f"{'new' if is_new else 'known'}: {of.instant.action} {of.instant.state}".encode()
            case Refused():
                return f"no, {recorded.code}".encode()
            case _:
                return b"done"


SPOKEN = Spoken()
DIALECTS: list[Dialect] = [SPOKEN, rendering.V1]


@pytest.fixture
def shop(dsn: str) -> Iterator[History]:
    """A history with one table."""
    with History(dsn) as history:
        history.make_namespace("shop")
        history.make_table(TABLE)
        yield history


def body(result: Result) -> bytes:
    """The answer to a command, or to its refusal."""
    if isinstance(result, Answer):
        return result.body
    assert result.answer is not None
    return result.answer


def begun(shop: History, key: str = "begin", dialect: Dialect | None = SPOKEN) -> str:
    """The requested time of a new instant."""
    result = shop.ask(key, BEGIN, dialect)
    assert isinstance(result, Answer)
    assert isinstance(result.result, InstantResult)
    return format_time(result.result.of.instant.requested_time)


def test_another_dialect_answers_a_begin_a_complete_and_a_refusal(shop: History) -> None:
    assert body(shop.ask("one", BEGIN, SPOKEN)) == b"new: commit inflight"
    time, late = begun(shop), begun(shop, "late")
    assert body(shop.ask("complete", completion(TABLE, time, [1]), SPOKEN)) == b"known: commit completed"
    assert body(shop.ask("refused", completion(TABLE, late, [1]), SPOKEN)) == b"no, write-conflict"


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_a_repeated_request_gets_the_first_answer_byte_for_byte(shop: History, dialect: Dialect) -> None:
    time, late = begun(shop, "first", dialect), begun(shop, "second", dialect)
    commands = [completion(TABLE, time, [1]), completion(TABLE, late, [1])]
    first = [body(shop.ask(f"key-{number}", command, dialect)) for number, command in enumerate(commands)]
    shop.pass_seconds(60)
    shop.roll_back(TABLE, late)
    repeated = [body(shop.ask(f"key-{number}", command, dialect)) for number, command in enumerate(commands)]
    assert repeated == first


def test_a_request_may_be_repeated_in_another_dialect(shop: History) -> None:
    begun(shop, "key", rendering.V1)
    assert body(shop.ask("key", BEGIN, SPOKEN)) == b"new: commit inflight"


def test_a_command_of_a_caller_without_a_dialect_has_a_result_and_no_answer(shop: History) -> None:
    begun(shop, "key", None)
    with psycopg.connect(shop.dsn) as connection:
        query = "SELECT dialect, answer_digest FROM chronolake.outcome WHERE request_id = 'key'"
        assert connection.execute(query).fetchall() == [(None, None)]


def test_an_answer_that_this_release_renders_otherwise_is_refused(shop: History) -> None:
    begun(shop, "key", rendering.V1)
    tampering.tamper(shop.dsn, "UPDATE outcome SET answer_digest = sha256('') WHERE request_id = 'key'")
    assert isinstance(shop.ask("key", BEGIN, rendering.V1), errors.UnknownOutcome)


def test_a_result_of_another_release_is_refused(shop: History) -> None:
    begun(shop, "key", rendering.V1)
    change = """result = convert_to('{"type":"InstantResult/9"}', 'UTF8')"""
    tampering.tamper(shop.dsn, f"UPDATE outcome SET {change} WHERE request_id = 'key'")
    assert isinstance(shop.ask("key", BEGIN, rendering.V1), errors.UnknownOutcome)


def test_v1_renders_every_kind_of_result() -> None:
    assert {*get_args(results.AnyResult)} == rendering.DOCUMENTS.keys()
