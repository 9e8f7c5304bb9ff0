"""The metastore that the options of a catalog name, and the session of Spark, which each request has."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

import chronolake
from chronolake import _access
from chronolake_model import storage
from chronolake_spark import errors
from chronolake_spark.catalogs.sessions import Sessions
from chronolake_spark.common import format_options
from chronolake_spark.common.format_options import SECRETS_OPTION

_WAREHOUSE: Final = "warehouse"
_OF_METASTORE: Final = (*_access.NAMES, SECRETS_OPTION)
_LOCK = threading.Lock()
_CLIENTS: dict[tuple[tuple[str, str], ...], chronolake.Client] = {}
"""By the options of a catalog: its client, which keeps its connections."""


@dataclass(frozen=True, slots=True)
class CatalogContext:
    """The client of a catalog, and the session that asks."""

    client: chronolake.Client
    spark: SparkSession
    _sessions: Sessions
    warehouse: str | None = None
    """The folder of tables that are made without a location."""
    table_id: str | None = None
    """The id of the table that the statement was planned for, if it was."""

    @classmethod
    def of(cls, request: Mapping[str, Any], sessions: Sessions) -> CatalogContext:
        """The context of a request. Raises ``InvalidOption``."""
        options = {name.lower(): text for name, text in request["options"].items()}
        if request.get("by_format"):
            # Of all options of a read or a write, those that lead to the metastore.
            options = {name: text for name, text in options.items() if name in _OF_METASTORE}
        warehouse = options.pop(_WAREHOUSE, None)
        session = sessions.session(request["session"])
        if properties := request.get("local_properties"):
            sessions.take_properties(properties, session)
        return cls(_client(options), session, sessions, warehouse, request.get("table_id"))

    def table(self, name: str) -> chronolake.Table:
        """The table with this name. Raises ``TableMismatch`` if it is another one than the statement's."""
        table = self.client.table(name)
        if self.table_id not in (None, table.definition.table_id):
            raise errors.TableMismatch(
                f"{name} was dropped, and made again, after this statement or frame was made: make it again"
            )
        return table

    def frame(self, name: str) -> DataFrame:
        """The frame that Java calls so."""
        return self._sessions.frame(name, self.spark)


def _client(options: Mapping[str, str]) -> chronolake.Client:
    given = dict(options)
    key = tuple(sorted(given.items()))
    with _LOCK:
        if key not in _CLIENTS:
            secrets = given.pop(SECRETS_OPTION, None)
            unknown = sorted(given.keys() - set(_access.NAMES))
            if unknown:
                names = sorted([*_OF_METASTORE, _WAREHOUSE])
                nearest = difflib.get_close_matches(unknown[0], names, n=1)
                hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
                raise errors.InvalidOption(
                    f"the catalog has no option {unknown[0]!r}{hint} Its options are {', '.join(names)}"
                )
            storage_options = None if secrets is None else format_options.secrets_of(secrets)
            try:
                storage.check_options((storage_options or {}).keys() - {storage.CREDENTIALS_OPTION})
                access = _access.access_of(given)
            except ValueError as exc:
                raise errors.InvalidOption(str(exc)) from None
            _CLIENTS[key] = chronolake.connect(access, storage_options=storage_options)
        return _CLIENTS[key]
