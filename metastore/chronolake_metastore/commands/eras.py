"""The command that records which eras of the log an archive has."""

from __future__ import annotations

from typing_extensions import override

from chronolake_metastore.commands.handler import Handler, Names
from chronolake_metastore.domain.eras import RecordArchivedEra
from chronolake_metastore.domain.events import EraArchived, Origin
from chronolake_metastore.domain.logs import CATALOG_ID
from chronolake_metastore.domain.results import AnyResult, EraResult
from chronolake_metastore.domain.state import State


class RecordArchivedEraHandler(Handler[RecordArchivedEra, None]):
    """Records that an archive has an era."""

    command = RecordArchivedEra

    @override
    def names(self, command: RecordArchivedEra) -> Names:
        return Names(catalog=True)

    @override
    def decide(self, state: State, command: RecordArchivedEra, evidence: None, origin: Origin) -> AnyResult:
        archived = EraArchived(
            era=command.era,
            archived_before=command.archived_before,
            location=command.location,
            runs=command.runs,
        )
        state.append(CATALOG_ID, origin, archived)
        return EraResult(log_id=CATALOG_ID, era=command.era)
