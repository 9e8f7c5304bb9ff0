"""Foreign files in ``.hoodie``, recorded in the log of their table."""

from __future__ import annotations

from typing_extensions import override

from chronolake_metastore.commands.handler import Handler, Loading, Names, Sharing, single_query
from chronolake_metastore.domain import publication
from chronolake_metastore.domain.events import Now, Origin
from chronolake_metastore.domain.publication import FoundFiles, RecordHudiFiles
from chronolake_metastore.domain.results import AnyResult, HudiFilesResult
from chronolake_metastore.domain.state import State
from chronolake_metastore.store import publication as stored


class RecordHudiFilesHandler(Handler[RecordHudiFiles, FoundFiles | None]):
    """Records foreign files, unless the last event of the table says the same."""

    command = RecordHudiFiles

    @override
    def names(self, command: RecordHudiFiles) -> Names:
        return Names(tables=[command.table])

    @override
    def sharing(self, command: RecordHudiFiles) -> Sharing:
        # The event of a command before it in the group would not be loaded.
        return Sharing.ALONE

    @override
    def load(
        self, state: State, command: RecordHudiFiles, evidence: FoundFiles | None, now: Now
    ) -> Loading[FoundFiles | None] | None:
        table = state.locked_table(command.table)
        return None if table is None else single_query(stored.find_found(table.table_id))

    @override
    def decide(
        self, state: State, command: RecordHudiFiles, evidence: FoundFiles | None, origin: Origin
    ) -> AnyResult:
        table = state.table(command.table)
        payload = publication.record_files(evidence, command, origin.now.wall)
        event = None if payload is None else state.append(table.table_id, origin, payload)
        version = None if event is None else event.version
        return HudiFilesResult(log_id=table.table_id, table=table.name, version=version)
