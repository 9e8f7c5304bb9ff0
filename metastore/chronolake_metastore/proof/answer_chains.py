"""Proving the answers: each chain of outcomes, and the refusals beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from chronolake_metastore.domain import logs as domain
from chronolake_metastore.domain.heads import AnswersHead, Heads
from chronolake_metastore.domain.proof import NOTHING, Check, FollowedAnswers, ProofFinding
from chronolake_metastore.proof.log_checks import hex_of
from chronolake_metastore.store import answers
from chronolake_metastore.store.postgres.transaction import Transaction
from chronolake_metastore.store.replay_tables import ReplaySession

NO_TABLE = "(no table)"
"""The name, in a finding, for outcomes that concern no table."""


class AnswersVerification:
    """One run over the outcomes of all chains, or of the chain of one table.

    It holds a head per chain and a page of outcomes, without their answers; never more.
    """

    def __init__(
        self, table_id: UUID | None, name: Callable[[UUID], str], report_finding: Callable[[ProofFinding], None]
    ) -> None:
        self._table_id = table_id
        self._name = name
        self._found = report_finding
        self._chains = FollowedAnswers()
        self.outcomes = 0

    async def read_until_recent(self, session: ReplaySession) -> None:
        """Follow all chains, a page in each transaction; servers may append meanwhile."""
        after = answers.BEGINNING
        while True:
            async with session.replaying() as tx:
                page = await answers.read(tx, after, only=self._table_id)
            if not page:
                return
            self._follow(page)
            after = page[-1].chain_id, page[-1].number

    async def read_remainder(self, tx: Transaction) -> None:
        """Follow the outcomes appended meanwhile, to the end as ``tx`` sees it; then project the heads."""
        heads = await answers.heads(tx, self._table_id)
        for last in heads:
            followed = self._chains.heads.get(last.chain_id, domain.START)
            after = last.chain_id, followed.number
            while after[1] < last.head.number:
                page = await answers.read(tx, after, only=last.chain_id)
                self._follow(page)
                after = last.chain_id, page[-1].number
        await tx.batch([answers.project(heads)])

    async def find_orphans(self, tx: Transaction, limit: int) -> None:
        """Find refusals without an outcome."""
        rows = await answers.refusals_without_outcome(tx, self._table_id, limit)
        for table_id, name, version, request_id in rows:
            table = name or NO_TABLE if table_id is None else self._name(table_id)
            what = f"the outcome of the refusal {request_id!r}"
            self._found(ProofFinding(Check.OUTCOME, table, version, what, "an outcome", NOTHING))

    async def check_heads(self, tx: Transaction, document: Heads) -> None:
        """Look for the heads of answers that a document keeps."""
        heads = [head for head in document.answers if self._table_id in (None, UUID(head.chain_id))]
        hashes = await answers.hashes(tx, [_key(head) for head in heads])
        for head in heads:
            digest = hex_of(hashes.get(_key(head)))
            if digest != head.hash:
                what = f"the outcome with number {head.number} of its chain, whose hash {document.name} keeps"
                table = head.table or self.name_of(UUID(head.chain_id))
                self._found(ProofFinding(Check.HEAD, table, None, what, head.hash, digest))

    def name_of(self, chain_id: UUID) -> str:
        """The name of the table whose chain it is."""
        return NO_TABLE if domain.is_nameless(chain_id) else self._name(chain_id)

    def _follow(self, page: Sequence[domain.StoredAnswer]) -> None:
        for answer in page:
            for finding in self._chains.follow(answer, self.name_of(answer.chain_id)):
                self._found(finding)
        self.outcomes += len(page)


def _key(head: AnswersHead) -> answers.AnswerKey:
    return UUID(head.chain_id), head.number
