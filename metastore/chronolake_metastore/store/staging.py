"""Write stats that were staged: what completing their instant asks of them, in sets and not one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from chronolake_metastore.domain.files import Touched
from chronolake_metastore.store import statements
from chronolake_metastore.store.transaction import Statement, Transaction
from chronolake_model.files import FileGroupName
from chronolake_model.instants import WriteSummary
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Touch

_FIND: Final = statements.load("staging/find")
_FIND_REPEATED: Final = statements.load("staging/find_repeated_files")
_FIND_GROUPS: Final = statements.load("staging/find_groups_to_check")
_SUMMARY: Final = msgspec.json.Decoder(WriteSummary)

# Lanes look rows up one by one; here as many are compared as an instant has files.
_IN_SETS: Final[Statement] = ("SET LOCAL enable_hashjoin = on", {})
_ONE_BY_ONE: Final[Statement] = ("SET LOCAL enable_hashjoin = off", {})


class StagedVersions(msgspec.Struct, frozen=True):
    """The versions that write stats of an instant were staged under."""

    table: str
    requested_time: Micros
    versions: Sequence[int]

    def parameters(self) -> dict[str, object]:
        """What the statements call it."""
        namespace, name = split_table_name(self.table)
        return {
            "namespace": namespace,
            "name": name,
            "requested_time": self.requested_time,
            "versions": list(self.versions),
        }


async def chunks(tx: Transaction, versions: StagedVersions) -> dict[int, WriteSummary]:
    """The totals of what was staged for the instant under each of the versions; of others nothing."""
    rows = await tx.query(_FIND, versions.parameters())
    return {version: _SUMMARY.decode(summary) for version, summary in rows}


async def repeated(tx: Transaction, versions: StagedVersions) -> list[tuple[str, str, str]]:
    """What was staged twice, if anything was: what it is, its partition path and its name."""
    *_, rows, _ = await tx.batch([_IN_SETS, (_FIND_REPEATED, versions.parameters()), _ONE_BY_ONE])
    return [(what, partition_path, name) for what, partition_path, name in rows]


async def groups_to_look_at(
    tx: Transaction, versions: StagedVersions, replaced: Sequence[FileGroupName]
) -> list[Touched]:
    """The file groups among what was staged that others may have touched since, or that are checked anyway."""
    parameters = versions.parameters() | {
        "partition_paths": [name.partition_path for name in replaced],
        "file_ids": [name.file_id for name in replaced],
    }
    *_, rows, _ = await tx.batch([_IN_SETS, (_FIND_GROUPS, parameters), _ONE_BY_ONE])
    return [(Touch(kind), FileGroupName(partition_path, file_id)) for kind, partition_path, file_id in rows]
