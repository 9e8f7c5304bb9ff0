"""Commands on tokens, which only the owner of the schema may record."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, TypeVar

from typing_extensions import override

from chronolake_metastore.commands.handler import Handler, Loading, Names, Sharing, single_query
from chronolake_metastore.domain import tokens
from chronolake_metastore.domain.events import Now, Origin, TokenCreated, TokenRevoked, TokenRotated
from chronolake_metastore.domain.logs import CATALOG_ID
from chronolake_metastore.domain.results import AnyResult, TokenResult
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tokens import CreateToken, RevokeToken, RotateToken, StoredToken
from chronolake_metastore.store import tokens as stored
from chronolake_model.times import Micros

CommandT = TypeVar("CommandT", CreateToken, RotateToken, RevokeToken)


class _TokenHandler(Handler[CommandT, StoredToken | None]):
    """A handler of one command on one token."""

    @override
    def names(self, command: CommandT) -> Names:
        return Names(catalog=True)

    @override
    def sharing(self, command: CommandT) -> Sharing:
        # The change of the token by a command before it in the group would not be loaded.
        return Sharing.ALONE

    @override
    def load(
        self, state: State, command: CommandT, evidence: StoredToken | None, now: Now
    ) -> Loading[StoredToken | None]:
        return single_query(stored.find(command.token_id))

    @override
    def decide(
        self, state: State, command: CommandT, evidence: StoredToken | None, origin: Origin
    ) -> AnyResult:
        payload = self._event(evidence, command, origin.now.wall)
        if payload is not None:
            state.append(CATALOG_ID, origin, payload)
        return TokenResult(log_id=CATALOG_ID, token_id=command.token_id)

    @abstractmethod
    def _event(
        self, existing: StoredToken | None, command: CommandT, now: Micros
    ) -> TokenCreated | TokenRotated | TokenRevoked | None:
        """The event of the command, if anything changes."""


class CreateTokenHandler(_TokenHandler[CreateToken]):
    """Creates a token."""

    command: ClassVar[type[CreateToken]] = CreateToken

    @override
    def _event(self, existing: StoredToken | None, command: CreateToken, now: Micros) -> TokenCreated | None:
        return tokens.create(existing, command, now)


class RotateTokenHandler(_TokenHandler[RotateToken]):
    """Gives a token another secret."""

    command: ClassVar[type[RotateToken]] = RotateToken

    @override
    def _event(self, existing: StoredToken | None, command: RotateToken, now: Micros) -> TokenRotated:
        return tokens.rotate(existing, command, now)


class RevokeTokenHandler(_TokenHandler[RevokeToken]):
    """Revokes a token."""

    command: ClassVar[type[RevokeToken]] = RevokeToken

    @override
    def _event(self, existing: StoredToken | None, command: RevokeToken, now: Micros) -> TokenRevoked | None:
        return tokens.revoke(existing, command)
