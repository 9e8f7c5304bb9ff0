"""The files of earlier writes that were rolled back without a client: a driver was killed, for example."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import chronolake
from chronolake.errors import ChronolakeError, StorageFailed
from chronolake_model.markers import EXECUTOR_PROPERTY, Executor

_LOG = logging.getLogger("chronolake.spark")


def finish(table: chronolake.Table) -> None:
    """Delete the files of pending rollbacks, unless the server does that."""
    if table.definition.properties.get(EXECUTOR_PROPERTY, Executor.CLIENT) != Executor.CLIENT:
        return
    try:
        table.finish_rollbacks()
    except StorageFailed as failure:
        # The rollback stays on the list for the next write; this write does not depend on it.
        _LOG.warning("%s: files of rolled-back instants could not be deleted: %s", table.name, failure)


@contextlib.contextmanager
def finished_beside(table: chronolake.Table) -> Iterator[None]:
    """``finish``, while the block runs: the driver mostly waits for Spark. A failure is logged."""
    with ThreadPoolExecutor(1, "chronolake-rollbacks") as executor:
        finishing = executor.submit(finish, table)
        try:
            yield
        finally:
            failure = finishing.exception()
            if isinstance(failure, ChronolakeError):
                _LOG.warning("%s: pending rollbacks could not be finished: %s", table.name, failure)
    if failure is not None and not isinstance(failure, ChronolakeError):
        raise failure
