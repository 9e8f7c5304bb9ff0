"""Chain heads, stored in a place outside of the database."""

from __future__ import annotations

from collections.abc import Iterator

from chronolake_metastore import errors
from chronolake_metastore.domain import heads
from chronolake_metastore.domain.heads import AnswersHead, Head, Heads
from chronolake_metastore.domain.logs import CATALOG_ID
from chronolake_metastore.domain.proof import Check, ProofFinding
from chronolake_metastore.object_storage import Folder
from chronolake_metastore.proof.log_checks import CATALOG
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import answers, clocks, proof
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session
from chronolake_model.times import Tick, format_time


async def collect(settings: Settings) -> Heads:
    """The head of each table's log, and of each chain of answers, at this moment.

    Raises ``DatabaseUnavailable``.
    """
    database = Database(settings)
    session = Session(database)
    try:
        async with session.begin() as tx:
            chain_heads = await proof.chain_heads(tx)
            found_answers = await answers.heads(tx)
            now = await tx.fetch_one(clocks.read_now())
    finally:
        await session.close()
        await database.close()
    return heads.seal(
        now.wall,
        [
            Head(
                table=CATALOG if head.table_id == CATALOG_ID else head.table,
                table_id=str(head.table_id),
                version=head.version,
                time=format_time(head.time, Tick.MICROSECOND),
                hash=head.hash.hex(),
            )
            for head in chain_heads
        ],
        [
            AnswersHead(
                table=CATALOG if last.chain_id == CATALOG_ID else last.table,
                chain_id=str(last.chain_id),
                number=last.head.number,
                hash=last.head.hash.hex(),
            )
            for last in found_answers
        ],
    )


def write(folder: Folder, document: Heads) -> None:
    """Write a document; raises ``ConfigurationError`` when it is there already or cannot be written."""
    folder.create(document.name, heads.encode(document))


def read_all(folder: Folder) -> Iterator[Heads | ProofFinding]:
    """The documents in a folder, oldest first; a finding in the place of one that is not as it was written.

    Raises ``ConfigurationError`` when there is none: the folder is probably the wrong one, or was emptied.
    """
    names = [name for name in folder.names() if heads.is_name(name)]
    if not names:
        raise errors.ConfigurationError(
            "there are no heads in that folder; chronolake-metastore heads writes them"
        )
    for name in names:
        try:
            yield heads.decode(name, folder.read(name))
        except ValueError as exc:
            yield ProofFinding(Check.HEAD, "", None, f"the document {name}", "as it was written", str(exc))
