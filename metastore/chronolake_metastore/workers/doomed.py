"""What a plan has still to delete: page by page, one function for each kind of plan.

Whoever goes on after another asks again, from the beginning: what was deleted and reported is listed no more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from chronolake_metastore.domain.events import Plan
from chronolake_metastore.store import markers
from chronolake_metastore.store.engine import Database
from chronolake_metastore.store.markers import FIRST, OfInstant
from chronolake_metastore.store.waiting import WaitingPlan
from chronolake_model.file_names import parse_file_name
from chronolake_model.markers import DeletedFile
from chronolake_model.times import format_time

PAGE: Final = 1_000
"""Files that are deleted, and reported, at once: as many as S3 deletes in one request."""

Page = Sequence[DeletedFile]
Pages = AsyncIterator[Page]


class NotOfTarget(Exception):
    """A plan names what is no data file of the instant that it undoes."""


def of(database: Database, waiting: WaitingPlan) -> Pages:
    """The files that the plan has still to delete."""
    return _marked(database, waiting) if waiting.plan.by_markers else _named(waiting)


def is_reported(plan: Plan) -> bool:
    """Whether each deletion is to be reported: what was marked is, what somebody named is not."""
    return plan.by_markers


async def _marked(database: Database, waiting: WaitingPlan) -> Pages:
    """What the target of a rollback has marked."""
    of, after = OfInstant(waiting.place.table_id, waiting.target), FIRST
    while True:
        async with database.reading() as connection:
            page = await markers.page(connection, of, after, PAGE)
        if not page:
            return
        # A file may be marked as two kinds.
        yield sorted({DeletedFile(one.partition_path, one.file_name) for one in page})
        after = page[-1]


async def _named(waiting: WaitingPlan) -> Pages:
    """What whoever asked for the rollback has named; raises ``NotOfTarget``."""
    # A client says these names, and the server has credentials that the client may not have.
    target = format_time(waiting.target, waiting.place.tick)
    named = [_data_file(path, target) for path in waiting.plan.files_to_delete]
    for at in range(0, len(named), PAGE):
        yield named[at : at + PAGE]


def _data_file(path: str, requested_time: str) -> DeletedFile:
    partition_path, _, file_name = path.rpartition("/")
    try:
        is_of_target = parse_file_name(file_name).requested_time == requested_time
    except ValueError:
        is_of_target = False
    if not is_of_target:
        raise NotOfTarget(f"{path[:200]!r} is no data file of the instant {requested_time}")
    return DeletedFile(partition_path, file_name)
