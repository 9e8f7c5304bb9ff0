"""Staged write stats: the facts that completing their instant needs, set-based."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from chronolake_metastore.domain.files import Touched
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.transaction import Query, Rows, no_rows
from chronolake_model import decoding
from chronolake_model.files import FileGroupName
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Touch, WriteSummary

_FIND: Final = statements.load("staging/find")
_FIND_REPEATED: Final = statements.load("staging/find_repeated_files")
_FIND_GROUPS: Final = statements.load("staging/find_groups_to_check")
_SUMMARY: Final = decoding.decoder(WriteSummary)

# Lanes look rows up one by one; here as many are compared as an instant has files.
_IN_SETS: Final = "SET LOCAL enable_hashjoin = on"
_ONE_BY_ONE: Final = "SET LOCAL enable_hashjoin = off"


class StagedVersions(msgspec.Struct, frozen=True):
    """The versions that write stats of an instant were staged under."""

    table: str
    requested_time: Micros
    versions: Sequence[int]

    def parameters(self) -> dict[str, object]:
        """Its names in the statements."""
        namespace, name = split_table_name(self.table)
        return {
            "namespace": namespace,
            "name": name,
            "requested_time": self.requested_time,
            "versions": list(self.versions),
        }


def chunks(versions: StagedVersions) -> Query[dict[int, WriteSummary]]:
    """The totals of what was staged for the instant under each of the versions; of others nothing."""
    return Query(_FIND, versions.parameters(), _summaries)


def repeated(versions: StagedVersions) -> Query[list[tuple[str, str, str]]]:
    """A duplicate among the staged write stats, or None: its kind, its partition path and its name.

    Fetch it ``in_sets``.
    """
    return Query(_FIND_REPEATED, versions.parameters(), lambda rows: [(row[0], row[1], row[2]) for row in rows])


def groups_to_check(versions: StagedVersions, replaced: Sequence[FileGroupName]) -> Query[list[Touched]]:
    """The file groups among what was staged that others may have touched since, or that are checked anyway.

    Fetch it ``in_sets``.
    """
    parameters = versions.parameters() | {
        "partition_paths": [name.partition_path for name in replaced],
        "file_ids": [name.file_id for name in replaced],
    }
    return Query(_FIND_GROUPS, parameters, _touched)


def in_sets(query: Query[Any]) -> list[Query[Any]]:
    """The query between the statements that let PostgreSQL compare sets for it, in one round trip."""
    return [Query(_IN_SETS, {}, no_rows), query, Query(_ONE_BY_ONE, {}, no_rows)]


def _summaries(rows: Rows) -> dict[int, WriteSummary]:
    return {version: _SUMMARY.decode(summary) for version, summary in rows}


def _touched(rows: Rows) -> list[Touched]:
    return [(Touch(kind), FileGroupName(partition_path, file_id)) for kind, partition_path, file_id in rows]
