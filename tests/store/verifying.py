"""The findings of verify, as values that tests compare."""

from __future__ import annotations

from typing import Any

from chronolake_metastore.domain.proof import Check
from tests.store import tampering
from tests.store.tampering import ORDERS

EVENT = f"WHERE table_id = {ORDERS} AND version = "
CLICKS = "(SELECT table_id FROM lake_table WHERE name = 'clicks')"
NO_TABLE = "'11111111-1111-1111-1111-111111111111'"
FailedCheck = tuple[Check, str, int | None]


def failed_checks(dsn: str, **options: Any) -> set[FailedCheck]:
    """The findings of verify: the check, the table and the version."""
    return {
        (finding.check, finding.table, finding.version) for finding in tampering.verify(dsn, **options).findings
    }
