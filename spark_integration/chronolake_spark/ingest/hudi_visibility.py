"""Whether Hudi's readers will see what an ingest loads, and why not."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import chronolake
from chronolake_hudi import publishable
from chronolake_model.publication import PublicationState
from chronolake_model.tables import Table


def obstacle_of(table: chronolake.Table, changed: Table) -> str | None:
    """Why Hudi's readers will not see what is loaded into ``table``, whose definition will be ``changed``.

    None if they will, or if publication is off, which is a decision of the table's owner.
    """
    publication = table.publication()
    if publication.state is PublicationState.PAUSED:
        return publication.reason
    return None if publication.state is PublicationState.OFF else publishable.unseen(changed)


@contextlib.contextmanager
def warned_by_caller() -> Iterator[None]:
    """Keep the client from logging warnings that the caller prints."""
    logger = logging.getLogger("chronolake.hudi")
    logger.addFilter(_drop)
    try:
        yield
    finally:
        logger.removeFilter(_drop)


def _drop(_: logging.LogRecord) -> bool:
    return False
