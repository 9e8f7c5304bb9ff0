"""The service: strangers may do nothing, and notes leave their actor in the log. ``test_rights`` has roles."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from chronolake_metastore import errors
from chronolake_metastore.batching.markers import MarkerBatcher
from chronolake_metastore.batching.sequencer import Notifier, Sequencer
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.tables import DropTable
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.notes import markers, metastore, readers
from chronolake_metastore.queries import credentials, tables
from chronolake_metastore.service import service as door
from chronolake_metastore.service.service import Service
from chronolake_metastore.settings import Access, Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.vending import Vendor
from chronolake_model.readers import BeginReading
from chronolake_model.times import Micros

NO_DATABASE = "postgresql://nobody@127.0.0.1:1/nothing"
ANN = Context("ann", "request-1")
TABLE = "shop.orders"
READING = BeginReading("reader")


def only_reading() -> None:
    raise errors.MetastoreMoved("an id", "its database is a copy")


VENDOR = Vendor([], only_reading, lambda *_: None)
ASKED: dict[str, Callable[[Service], Awaitable[object]]] = {
    "a command": lambda service: service.execute(ANN, DropTable(TABLE, None)),
    "a note": lambda service: service.note(ANN, readers.begin, TABLE, READING, None),
    "another note": lambda service: service.note(ANN, markers.delete, TABLE, Micros(1)),
    "markers": lambda service: service.create_markers(ANN, TABLE, Micros(1), [], None),
    "a read": lambda service: service.read(ANN, tables.get, TABLE),
    "keys to read": lambda service: service.read(ANN, credentials.for_reading, TABLE, VENDOR),
    "keys to write": lambda service: service.read(ANN, credentials.for_writing, TABLE, VENDOR),
    "keys to maintain": lambda service: service.read(ANN, credentials.for_maintenance, TABLE, VENDOR),
}


def ask(
    dsn: str,
    asked: Callable[[Service], Awaitable[object]],
    refuse: Callable[[], None] = door.refuse_nothing,
    access: Access = Access.OFF,
) -> None:
    """Ask a service once."""

    async def run() -> None:
        settings, metrics = Settings(dsn=dsn), Metrics()
        database = Database(settings)
        sequencer = Sequencer(database, settings, metrics, Notifier())
        try:
            batcher = MarkerBatcher(database, settings, metrics)
            await asked(Service(database, sequencer, batcher, refuse, access))
        finally:
            await database.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", ASKED)
def test_an_unknown_caller_may_do_nothing_while_access_is_on(kind: str) -> None:
    with pytest.raises(errors.Unauthenticated):
        ask(NO_DATABASE, ASKED[kind], access=Access.ON)


@pytest.mark.parametrize("kind", ["a command", "markers", "keys to write", "keys to maintain"])
def test_a_server_that_only_reads_takes_no_commands_and_gives_no_keys_to_write(kind: str) -> None:
    with pytest.raises(errors.MetastoreMoved):
        ask(NO_DATABASE, ASKED[kind], only_reading)


@pytest.mark.parametrize("kind", ["a note", "another note", "a read", "keys to read"])
def test_a_server_that_only_reads_takes_leases_of_readers(kind: str, dsn: str) -> None:
    with pytest.raises(errors.TableNotFound):
        ask(dsn, ASKED[kind], only_reading)


def test_a_note_leaves_its_actor_and_request_id_in_the_log(dsn: str) -> None:
    with capture_logs() as lines:
        ask(dsn, lambda service: service.note(ANN, metastore.follow_promotion))
    assert lines == [
        {
            "event": "note",
            "log_level": "info",
            "note": "metastore.follow_promotion",
            "names": (),
            "actor": "ann",
            "request_id": "request-1",
        }
    ]
