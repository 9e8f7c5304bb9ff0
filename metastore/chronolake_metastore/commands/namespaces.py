"""Commands on namespaces."""

from __future__ import annotations

from typing_extensions import override

from chronolake_metastore.commands.handler import Handler, Names
from chronolake_metastore.domain import namespaces, rights
from chronolake_metastore.domain.events import Origin
from chronolake_metastore.domain.logs import CATALOG_ID
from chronolake_metastore.domain.namespaces import CreateNamespace, DropNamespace
from chronolake_metastore.domain.results import AnyResult, DropResult, NamespaceResult
from chronolake_metastore.domain.state import State


class CreateNamespaceHandler(Handler[CreateNamespace, None]):
    """Creates a namespace."""

    command = CreateNamespace

    @override
    def names(self, command: CreateNamespace) -> Names:
        return Names(catalog=True, namespaces=[command.name], new=rights.scopes_of([command.name]))

    @override
    def decide(self, state: State, command: CreateNamespace, evidence: None, origin: Origin) -> AnyResult:
        name = command.name
        state.append(CATALOG_ID, origin, namespaces.create(state.namespaces.get(name), command))
        return NamespaceResult(log_id=CATALOG_ID, namespace=state.namespaces[name])


class DropNamespaceHandler(Handler[DropNamespace, None]):
    """Drops a namespace that has no tables."""

    command = DropNamespace

    @override
    def names(self, command: DropNamespace) -> Names:
        return Names(catalog=True, namespaces=[command.name])

    @override
    def decide(self, state: State, command: DropNamespace, evidence: None, origin: Origin) -> AnyResult:
        namespace = state.namespaces.get(command.name)
        tables = state.table_counts.get(command.name, 0)
        state.append(CATALOG_ID, origin, namespaces.drop(namespace, tables, command))
        return DropResult(log_id=CATALOG_ID)
