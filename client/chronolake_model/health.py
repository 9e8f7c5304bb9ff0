"""The health of tables: what an operator looks at."""

from __future__ import annotations

import msgspec

from chronolake_model.publication import Publication, PublicationState

HEALTH_LIMIT_MAX = 100
"""The largest page of tables that a server gives."""


class TableHealth(msgspec.Struct, frozen=True):
    """The state of one table.

    ``publication`` says why Hudi's readers do not see it as it is. ``log_files`` is the number of log files in
    its latest slices, ``pending_plans`` that of plans that are not completed yet.
    """

    table: str
    publication: Publication
    log_files: int
    pending_plans: int

    @property
    def problem(self) -> str | None:
        """Why the publication is paused or fails; None if it goes on, or is off."""
        publication = self.publication
        if publication.state is PublicationState.PAUSED:
            return publication.reason
        return publication.failure


class HealthPage(msgspec.Struct, frozen=True):
    """A page of tables by name. ``refusal`` says why this server only reads; null if it takes commands.

    Then it publishes nothing either, whatever the state of a table is.
    """

    refusal: str | None
    tables: list[TableHealth]
    next_cursor: str | None
