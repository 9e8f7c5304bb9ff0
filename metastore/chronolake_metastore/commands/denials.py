"""The command that records a denied read or note, for auditors. It changes nothing: it is always refused."""

from __future__ import annotations

from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.commands.handler import Handler, Names
from chronolake_metastore.domain.denials import RecordDenial
from chronolake_metastore.domain.events import Origin
from chronolake_metastore.domain.results import AnyResult
from chronolake_metastore.domain.state import State
from chronolake_model.roles import scope_of


class RecordDenialHandler(Handler[RecordDenial, None]):
    """Records a denial as the refusal of this command."""

    command = RecordDenial

    @override
    def names(self, command: RecordDenial) -> Names:
        if command.on is not None and scope_of(command.on).is_table:
            return Names(tables=[command.on])
        return Names(catalog=True)

    @override
    def decide(self, state: State, command: RecordDenial, evidence: None, origin: Origin) -> AnyResult:
        raise errors.Forbidden(command.detail, right=command.right, on=command.on, denied=command.denied)
