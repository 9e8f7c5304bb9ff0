"""Connections to PostgreSQL: a bound on every wait, and statements that are sent together by libpq's pipeline.

PostgreSQL ends statements that take too long, and TCP notices a machine that is gone. Neither helps against a
database that is frozen while its machine answers: a paused virtual machine, a storage that hangs, a proxy that
lost its other side.

psycopg's own pipeline waits for the connection at every statement; that took a tenth of the server's time.
Parameters and rows are still psycopg's to adapt, and so are the connection, its errors and the waiting. The
parts of psycopg that it does not document, and that the product relies on, are all here: ``generators``,
``error_from_result``, the methods of ``Transformer``, and that every wait passes ``AsyncConnection.wait``
(docs/decisions/0045-spark-format.md).

Columns of many rows are parameters: each list is sent as one binary array, of the type that its SQL names.
psycopg looks through a list for its type and writes it as text, quotes and all: that took a fifth of the
server's time. It also finds no type in a list of nulls, so that one statement was prepared again for every set
of columns that happened to be empty. Here ``%(name)s::bigint[]`` says what ``name`` is. Arrays of types that
are not in ``_ELEMENTS`` are left to psycopg.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import re
import select
import socket
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
import psycopg
from psycopg import abc, adapt, errors, generators, pq
from psycopg.adapt import AdaptersMap, Buffer, PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow

_DECLARED: Final = re.compile(r"%\((\w+)\)s::(\w+)\[\]")
_NULL: Final = b"\xff\xff\xff\xff"
_EMPTY: Final = struct.Struct("!iiI")
_HEAD: Final = struct.Struct("!iiIii")
_LENGTH: Final = struct.Struct("!i").pack
_NUMBERS: Final = {"smallint": (2, "ih"), "integer": (4, "ii"), "bigint": (8, "iq"), "boolean": (1, "i?")}
"""Types of numbers: the length of an element in bytes, and the format of that length and the element."""
_UUID_LENGTH: Final = _LENGTH(16)
_PLACEHOLDER: Final = re.compile(r"%(?:\((\w+)\)s|%)")
_LARGE_BYTES: Final = 16_384
_PUSHES_MAX: Final = 2
_PUSH_MS: Final = 1
"""How long to wait until PostgreSQL has taken more, in milliseconds: nothing else runs meanwhile."""
_Key = tuple[str, tuple[int, ...]]
PREPARED_MAX: Final = 300
"""The most prepared statements of a connection, for each takes memory of PostgreSQL; then all begin anew."""
KEPT_LENGTH_MAX: Final = 16_384
"""A longer statement, such as that of a large filter, is not kept: it hardly comes again."""
_DISCARD: Final = b"DEALLOCATE ALL"


class StatementResult(msgspec.Struct, frozen=True):
    """PostgreSQL's answer to a statement: its rows, and its command tag."""

    rows: list[tuple[Any, ...]]
    tag: str


class BoundedConnection(psycopg.AsyncConnection[TupleRow]):
    """A connection that is closed if the database is silent for longer than ``silent_seconds``.

    Its last statements may have been executed.
    """

    silent_seconds: float | None = None
    mark: str | None = None
    """The mark of its session (``sessions``)."""
    _pipelined: _Pipeline | None = None

    async def run_together(self, statements: Iterable[tuple[str, Mapping[str, Any]]]) -> list[StatementResult]:
        """Run ``statements`` in their order, in one round trip, and give the answer to each.

        Raises the error of the first that fails; those after it are not run.
        """
        if self._pipelined is None:
            self._pipelined = _Pipeline(self)
        return await self._pipelined.run(statements)

    async def wait(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[explicit-override]
        """Every wait of psycopg for a connection passes through here."""
        if self.silent_seconds is None:
            return await super().wait(*args, **kwargs)
        hanging_up = asyncio.get_running_loop().call_later(self.silent_seconds, self._hang_up)
        try:
            return await super().wait(*args, **kwargs)
        finally:
            hanging_up.cancel()

    def _hang_up(self) -> None:
        # A task that waits reads the end of the stream, as if the database had died; the rest is the same. To
        # cancel the task instead would have psycopg ask the silent database to cancel, and wait for that.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.pgconn.socket)) as line:
            line.shutdown(socket.SHUT_RDWR)


class _Sent(msgspec.Struct, frozen=True):
    """A sent request that waits for its answer. A request to prepare has the statement that it ``prepares``."""

    prepares: _Key | None = None
    name: bytes = b""


_END: Final = _Sent()
"""The request that ends a pipeline."""
_DISCARDED: Final = _Sent()
"""The request to discard all prepared statements."""


class _Pipeline:
    """The pipeline of one connection, which has no other user meanwhile. Each statement is prepared once."""

    def __init__(self, connection: psycopg.AsyncConnection[TupleRow]) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._numbers = itertools.count()
        self._prepared: dict[_Key, bytes] = {}

    async def run(self, statements: Iterable[tuple[str, Mapping[str, Any]]]) -> list[StatementResult]:
        """Run ``statements``; raises ``psycopg.Error``, the first that one of them met.

        A large one is on its way, and PostgreSQL runs it, while the next ones are made.
        """
        transformer: abc.Transformer = Transformer(self._connection)
        try:
            self._pgconn.enter_pipeline_mode()
            sent = self._discarded()
            sent += [
                query for sql, parameters in statements for query in self._send(transformer, sql, parameters)
            ]
            self._pgconn.pipeline_sync()
            results = await self._connection.wait(_answers(self._pgconn))
            if self._pgconn.status == ConnStatus.OK:
                self._pgconn.exit_pipeline_mode()
        except BaseException:
            # Answers may still be on their way, so this connection cannot be used again.
            self._pgconn.finish()
            raise
        return self._answered(transformer, sent, results)

    def _discarded(self) -> list[_Sent]:
        """Discard all prepared statements, if they have become too many."""
        if len(self._prepared) < PREPARED_MAX:
            return []
        self._prepared.clear()
        self._pgconn.send_query_params(_DISCARD, None)
        return [_DISCARDED]

    def _send(self, transformer: abc.Transformer, sql: str, parameters: Mapping[str, Any]) -> list[_Sent]:
        is_kept = len(sql) <= KEPT_LENGTH_MAX
        text, names = _parsed(sql) if is_kept else _parsed.__wrapped__(sql)
        bound = bind(sql, parameters)
        values = transformer.dump_sequence([bound[name] for name in names], [PyFormat.AUTO] * len(names))
        types, formats = transformer.types, transformer.formats
        key = sql, types or ()
        sent = []
        if (name := self._prepared.get(key)) is None:
            # The statement without a name lasts until the next one.
            name = f"together_{next(self._numbers)}".encode() if is_kept else b""
            self._pgconn.send_prepare(name, text, types)
            sent.append(_Sent(key, name))
        self._pgconn.send_query_prepared(name, values, formats)
        if sum(len(value) for value in values if value is not None) >= _LARGE_BYTES:
            # libpq would keep up to 64 kB of it until the end of the pipeline.
            self._push()
        return [*sent, _Sent()]

    def _push(self) -> None:
        """Send what libpq keeps, as long as PostgreSQL takes it; the rest goes with the end of the pipeline."""
        for _ in range(_PUSHES_MAX):
            if not self._pgconn.flush():
                return
            poll = select.poll()
            poll.register(self._pgconn.socket, select.POLLOUT)
            poll.poll(_PUSH_MS)

    def _answered(
        self, transformer: abc.Transformer, sent: Sequence[_Sent], results: Sequence[PGresult]
    ) -> list[StatementResult]:
        answered: list[StatementResult] = []
        for query, result in zip([*sent, _END], results, strict=False):
            if result.status in (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED):
                # Statements after a failed one are aborted.
                raise errors.error_from_result(result, self._connection.info.encoding)
            if query is _END:
                return answered
            if query.prepares is not None and query.name:
                self._prepared[query.prepares] = query.name
            if query.prepares is not None or query is _DISCARDED:
                continue
            transformer.set_pgresult(result)
            rows = transformer.load_rows(0, result.ntuples, tuple) if result.ntuples else []
            answered.append(StatementResult(rows, (result.command_status or b"").decode()))
        raise errors.OperationalError("the connection was lost before all was answered")


def _answers(pgconn: Any) -> abc.PQGen[list[PGresult]]:
    """Send what is still to be sent, and fetch an answer to each, and those to the end of the pipeline.

    The end itself can fail, when it commits, or when PostgreSQL is closing the connection. A connection that is
    lost on the way may leave some without an answer.
    """
    yield from generators.send(pgconn)
    answers: list[PGresult] = []
    while not answers or answers[-1].status != ExecStatus.PIPELINE_SYNC:
        try:
            fetched = yield from generators.fetch_many(pgconn)
        except psycopg.OperationalError:
            if answers and answers[-1].status == ExecStatus.FATAL_ERROR:
                break  # PostgreSQL has said why it closed the connection.
            raise
        if not fetched:
            break
        answers.append(fetched[-1])
    return answers


@functools.lru_cache(maxsize=1_024)
def _parsed(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """The statement with numbered parameters, and their names in that order."""
    names: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        if match[1] is None:
            return "%"
        return f"${names.setdefault(match[1], len(names) + 1)}"

    text = _PLACEHOLDER.sub(numbered, sql)
    return text.encode(), tuple(names)


class _Array(bytes):
    """An array as it goes over the wire; its class tells its type."""

    element_oid: int


class _ArrayDumper(adapt.Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: bytes) -> Buffer:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        return obj


def _bytes(value: bytes) -> bytes:
    return _LENGTH(len(value)) + value


def _number(type_name: str) -> Callable[[Any], bytes]:
    length, form = _NUMBERS[type_name]
    return functools.partial(struct.Struct(f"!{form}").pack, length)


_ELEMENTS: Final[dict[str, Callable[[Any], bytes]]] = {
    **{type_name: _number(type_name) for type_name in _NUMBERS},
    "text": lambda value: _bytes(value.encode()),
    "bytea": _bytes,
    "uuid": lambda value: _UUID_LENGTH + value.bytes,
}
"""The wire format of an element of a type, after its length."""

_ADAPTERS: Final = AdaptersMap(psycopg.adapters)


class _UuidLoader(adapt.Loader):
    """Gives one object for equal ids: ids are keys of dicts, and equal objects are compared in Python."""

    format = pq.Format.TEXT

    def load(self, data: Buffer) -> UUID:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        return _uuid(bytes(data))


@functools.lru_cache(maxsize=10_000)
def _uuid(text: bytes) -> UUID:
    return UUID(text.decode())


_ADAPTERS.register_loader("uuid", _UuidLoader)


def _class_of(type_name: str) -> type[_Array]:
    info = psycopg.adapters.types[type_name]
    array = type(f"_{type_name}_array", (_Array,), {"element_oid": info.oid})
    _ADAPTERS.register_dumper(array, type("_Dumper", (_ArrayDumper,), {"oid": info.array_oid}))
    return array


_CLASSES: Final = {name: _class_of(name) for name in _ELEMENTS}


def context() -> AdaptersMap:
    """The adapters that a connection needs for the results of ``bind``. Its client encoding must be UTF-8."""
    return AdaptersMap(_ADAPTERS)


def bind(sql: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The ``parameters`` of ``sql``, with a list wherever ``sql`` declares an array made into one."""
    declared = _declared(sql) if len(sql) <= KEPT_LENGTH_MAX else _declared.__wrapped__(sql)
    if not declared:
        return parameters
    bound = dict(parameters)
    for name, type_name in declared:
        # Others are an array that is text already, or none at all.
        if isinstance(bound[name], list | tuple):
            bound[name] = _encode(type_name, bound[name])
    return bound


@functools.lru_cache(maxsize=1_024)
def _declared(sql: str) -> tuple[tuple[str, str], ...]:
    return tuple({(name, type_name) for name, type_name in _DECLARED.findall(sql) if type_name in _ELEMENTS})


def _encode(type_name: str, values: Sequence[Any]) -> bytes:
    array = _CLASSES[type_name]
    if not values:
        return array(_EMPTY.pack(0, 0, array.element_oid))
    # The second number would say whether there are nulls; PostgreSQL looks for itself.
    head = _HEAD.pack(1, 0, array.element_oid, len(values), 1)
    return array(b"".join([head, *_elements(type_name, values)]))


def _elements(type_name: str, values: Sequence[Any]) -> Iterable[bytes]:
    element = _ELEMENTS[type_name]
    # Most columns of a group have one value in all rows, or are null.
    if values[0] == values[-1] and values.count(values[0]) == len(values):
        return [_NULL if values[0] is None else element(values[0])] * len(values)
    if type_name in _NUMBERS and None not in values:
        return [_packed(type_name, values)]
    if type_name == "bytea" and None not in values and len(set(map(len, values))) == 1:
        # Hashes: by one call for all.
        length = _LENGTH(len(values[0]))
        return [length, length.join(values)]
    if type_name == "uuid" and None not in values:
        return [_UUID_LENGTH, _UUID_LENGTH.join([value.int.to_bytes(16, "big") for value in values])]
    if type_name == "text" and None not in values:
        texts = [value.encode() for value in values]
        return itertools.chain.from_iterable(zip(map(_LENGTH, map(len, texts)), texts, strict=True))
    return [_NULL if value is None else element(value) for value in values]


def _packed(type_name: str, values: Sequence[Any]) -> bytes:
    """Numbers without nulls, by one call for all."""
    length, form = _NUMBERS[type_name]
    elements = itertools.chain.from_iterable(zip(itertools.repeat(length), values))
    return struct.pack(f"!{form * len(values)}", *elements)
