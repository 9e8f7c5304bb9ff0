"""Changes of a table's schema."""

from __future__ import annotations

from typing_extensions import override

from chronolake_metastore.commands.handler import Handler, Names
from chronolake_metastore.domain import schemas
from chronolake_metastore.domain.events import Origin
from chronolake_metastore.domain.results import AnyResult, SchemaResult
from chronolake_metastore.domain.schemas import ChangeSchema
from chronolake_metastore.domain.state import State


class ChangeSchemaHandler(Handler[ChangeSchema, None]):
    """Changes a table's schema."""

    command = ChangeSchema

    @override
    def names(self, command: ChangeSchema) -> Names:
        return Names(tables=[command.table])

    @override
    def decide(self, state: State, command: ChangeSchema, evidence: None, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        event = state.append(table.table_id, origin, schemas.change(table, command))
        changed = state.table(command.table)
        version = schemas.present(changed, event.time, event.version)
        return SchemaResult(log_id=table.table_id, table=changed.name, schema=version)
