"""Whether Hudi's readers will see what an ingest loads, and why not."""

from __future__ import annotations

import chronolake
from chronolake_hudi import publishable
from chronolake_model.publication import PublicationState
from chronolake_model.tables import Table


def obstacle_of_new(table: Table) -> str | None:
    """Why Hudi's readers will not see a table of this definition; None if they will."""
    if (reason := publishable.obstacle(table)) is not None:
        return reason
    reason = publishable.log_obstacle(table)
    return None if reason is None else f"as soon as it has log files, {reason}"


def obstacle_of(table: chronolake.Table, changed: Table) -> str | None:
    """Why Hudi's readers will not see what is loaded into ``table``, whose definition will be ``changed``.

    None if they will, or if publication is off, which is a decision of the table's owner.
    """
    publication = table.publication()
    if publication.state is PublicationState.PAUSED:
        return publication.reason
    return None if publication.state is PublicationState.OFF else obstacle_of_new(changed)
