"""DELETE, UPDATE and MERGE INTO: the instant of a statement, from its begin on the driver to its end.

begin      before Spark's tasks run: this process renews the lease
stage      the tasks write the changed rows into files of the instant (``staged_changes``)
complete   a Spark job writes them into the file groups, and publishes (``row_changes``)

If the driver dies, this process ends with it, and the server rolls the instant back when its lease ends.
"""

from __future__ import annotations

import base64
import contextlib
import pickle
import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

import msgspec

import chronolake
from chronolake.errors import ChronolakeError
from chronolake.writing import writable_tables
from chronolake_model import decoding
from chronolake_model.tables import Table
from chronolake_model.vocabulary import Operation
from chronolake_spark import errors, tables
from chronolake_spark.catalogs.context import CatalogContext
from chronolake_spark.driver import progress
from chronolake_spark.write import rollbacks, row_changes
from chronolake_spark.write.row_changes import StagedStatement
from chronolake_spark.write.staged_changes import StagedRows, Staging

_INSTEAD: Final = "Nothing was written: a statement cannot give a record the key of another"


class BeginStatement(msgspec.Struct, frozen=True):
    """A request to begin a statement, which Spark has planned for a version of the schema.

    ``statement`` is an id that Java gives it.
    """

    table: str
    statement: str
    schema_version: int
    command: str


class BegunStatement(msgspec.Struct, frozen=True):
    """The options of the writer of a statement's tasks."""

    options: dict[str, str]


class CompleteStatement(msgspec.Struct, frozen=True):
    """A request to publish the rows that tasks have staged: their messages, in base64.

    ``read_as_of`` is the state that the statement has read.
    """

    table: str
    statement: str
    read_as_of: str
    messages: list[str]


class AbortStatement(msgspec.Struct, frozen=True):
    """A request to roll a statement back."""

    table: str
    statement: str


@dataclass(frozen=True, slots=True)
class _Statement:
    table: chronolake.Table
    definition: Table
    write: chronolake.Write
    operation: Operation
    ended: contextlib.ExitStack
    """Closing it stops the renewal of the lease; an exception rolls the instant back."""


class StatementFailed(Exception):
    """Spark has aborted a statement: the reason of its rollback."""


_STATEMENTS: dict[str, _Statement] = {}
"""The statements that run, by their ids."""
_ABORTED: deque[str] = deque(maxlen=1_000)
"""The ids of the last statements that were aborted; one may be aborted while it is begun."""
_LOCK = threading.Lock()


def begin(context: CatalogContext, request: BeginStatement) -> BegunStatement:
    """Begin the instant of a statement. Raises ``SchemaMismatch``, ``TableMismatch``."""
    table = context.table(request.table)
    definition = writable_tables.check(table.definition)
    if definition.schema_version != request.schema_version:
        raise errors.SchemaMismatch(
            f"the columns of {request.table} changed while the statement was planned: run it again"
        )
    table.claim_storage()
    operation = Operation.DELETE if request.command == "DELETE" else Operation.UPSERT
    with contextlib.ExitStack() as begun:
        write = begun.enter_context(table.begin(operation=operation))
        writable_tables.refuse_another_schema(definition, write.instant)
        definition = writable_tables.in_present_buckets(definition, write.instant)
        staging = Staging(table.access, definition, write.requested_time, write.instant.writer, None)
        with _LOCK:
            if request.statement in _ABORTED:
                raise errors.ServiceStopped(f"the statement of {request.table} was stopped while it began")
            _STATEMENTS[request.statement] = _Statement(table, definition, write, operation, begun.pop_all())
    return BegunStatement(staging.to_options(table.storage_options))


def complete(context: CatalogContext, request: CompleteStatement) -> None:
    """Write the staged rows, and publish them. After a failure the instant is rolled back.

    Raises ``WriteConflict``, ``DuplicateKeys``, and what ``SparkTable.upsert`` raises.
    """
    statement = _taken(request.statement)
    if statement is None:
        raise errors.ServiceStopped(f"the statement of {request.table} was stopped")
    messages = (pickle.loads(base64.b64decode(message)) for message in request.messages)
    staged = [decoding.decode(message.rows, StagedRows) for message in messages if message is not None]
    changed = StagedStatement(statement.definition, request.read_as_of, statement.operation, staged)
    with statement.ended, rollbacks.finished_beside(statement.table):
        with progress.described(context.spark, f"{statement.operation} {request.table}"):
            try:
                row_changes.complete(context.spark, statement.table, statement.write, changed)
            except errors.DuplicateKeys as error:
                text = str(error).replace("Use upsert, or duplicates='drop'", _INSTEAD)
                raise errors.DuplicateKeys(text, error.context) from None
        statement.write.refresh()
    tables.follow_statement(context.spark, context.client, statement.table)


def abort(context: CatalogContext, request: AbortStatement) -> None:
    """Roll a statement back, unless it has ended."""
    with _LOCK:
        _ABORTED.append(request.statement)
    statement = _taken(request.statement)
    if statement is None:
        return
    with contextlib.suppress(StatementFailed, ChronolakeError), statement.ended:
        raise StatementFailed("the Spark job failed")


def _taken(statement: str) -> _Statement | None:
    with _LOCK:
        return _STATEMENTS.pop(statement, None)
