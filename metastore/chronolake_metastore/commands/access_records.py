"""Commands that record for auditors what the service has answered: denied reads and notes, and credentials."""

from __future__ import annotations

from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.commands.handler import Handler, Names
from chronolake_metastore.domain.denials import RecordDenial
from chronolake_metastore.domain.events import CredentialsVended, Origin
from chronolake_metastore.domain.results import AnyResult, VendingResult
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.vendings import RecordVending
from chronolake_model.roles import scope_of


class RecordDenialHandler(Handler[RecordDenial, None]):
    """Records a denial as the refusal of this command, which changes nothing."""

    command = RecordDenial

    @override
    def names(self, command: RecordDenial) -> Names:
        if command.on is not None and scope_of(command.on).is_table:
            return Names(tables=[command.on])
        return Names(catalog=True)

    @override
    def decide(self, state: State, command: RecordDenial, evidence: None, origin: Origin) -> AnyResult:
        raise errors.Forbidden(command.detail, right=command.right, on=command.on, denied=command.denied)


class RecordVendingHandler(Handler[RecordVending, None]):
    """Records credentials in the log of their table."""

    command = RecordVending

    @override
    def names(self, command: RecordVending) -> Names:
        return Names(tables=[command.table])

    @override
    def decide(self, state: State, command: RecordVending, evidence: None, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        payload = CredentialsVended(
            subject=command.subject, access=command.access, expires_at=command.expires_at
        )
        event = state.append(table.table_id, origin, payload)
        return VendingResult(log_id=table.table_id, version=event.version)
