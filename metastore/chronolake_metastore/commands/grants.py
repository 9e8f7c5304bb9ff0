"""Commands on the roles of subjects."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar

from typing_extensions import override

from chronolake_metastore.commands.handler import Handler, Loading, Names, Sharing, single_query
from chronolake_metastore.domain import grants
from chronolake_metastore.domain.events import Now, Origin
from chronolake_metastore.domain.grants import GrantRole, RevokeRole, StoredGrant
from chronolake_metastore.domain.logs import CATALOG_ID
from chronolake_metastore.domain.results import AnyResult, DropResult, GrantResult
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import grants as stored

CommandT = TypeVar("CommandT", GrantRole, RevokeRole)


class _GrantHandler(Handler[CommandT, Sequence[StoredGrant]]):
    """A handler of one command on the role of a subject. A table must exist, a namespace need not."""

    no_evidence: ClassVar[Sequence[StoredGrant]] = ()

    @override
    def names(self, command: CommandT) -> Names:
        scope = grants.scope_of(command)
        if scope.is_table:
            return Names(catalog=True, tables=[scope.text])
        return Names(catalog=True, new=[scope])

    @override
    def sharing(self, command: CommandT) -> Sharing:
        # The change by a command before it in the group would not be loaded.
        return Sharing.ALONE

    @override
    def load(
        self, state: State, command: CommandT, evidence: Sequence[StoredGrant], now: Now
    ) -> Loading[Sequence[StoredGrant]]:
        return single_query(stored.find(command.subject))

    @override
    def decide(
        self, state: State, command: CommandT, evidence: Sequence[StoredGrant], origin: Origin
    ) -> AnyResult:
        scope = grants.scope_of(command)
        table = state.table(scope.text) if scope.is_table else None
        return self._decide(state, command, evidence, table, origin)

    @abstractmethod
    def _decide(
        self,
        state: State,
        command: CommandT,
        existing: Sequence[StoredGrant],
        table: Table | None,
        origin: Origin,
    ) -> AnyResult: ...


class GrantRoleHandler(_GrantHandler[GrantRole]):
    """Grants a role."""

    command = GrantRole

    @override
    def _decide(
        self,
        state: State,
        command: GrantRole,
        existing: Sequence[StoredGrant],
        table: Table | None,
        origin: Origin,
    ) -> AnyResult:
        present = grants.present(existing, command, table)
        granted = grants.grant(existing, command, table)
        if granted is None:
            assert present is not None
            return GrantResult(log_id=CATALOG_ID, grant=present)
        event = state.append(CATALOG_ID, origin, granted)
        return GrantResult(log_id=CATALOG_ID, grant=grants.evolve(granted, event), is_new=present is None)


class RevokeRoleHandler(_GrantHandler[RevokeRole]):
    """Revokes a role. It is a success if the subject has none there."""

    command = RevokeRole

    @override
    def _decide(
        self,
        state: State,
        command: RevokeRole,
        existing: Sequence[StoredGrant],
        table: Table | None,
        origin: Origin,
    ) -> AnyResult:
        revoked = grants.revoke(existing, command, table)
        if revoked is not None:
            state.append(CATALOG_ID, origin, revoked)
        return DropResult(log_id=CATALOG_ID)
