from __future__ import annotations

from datetime import UTC, datetime

import pytest

from chronolake_metastore.domain import partition_values
from chronolake_metastore.domain.literals import LiteralKind

MOMENT = datetime(2026, 1, 1, 0, 0, 7, 120_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("2026-01-01T00%3A00%3A07.12Z", (MOMENT,)),
        ("2026-01-01T02%3A00%3A07.12+02%3A00", (MOMENT,)),
        ("1767225607120000", (MOMENT,)),
        ("__HIVE_DEFAULT_PARTITION__", (None,)),
        ("2026-01-01 00%3A00%3A07", None),
        ("+12345-01-01T00%3A00%3A00Z", None),
        ("99999999999999999999", None),
    ],
    ids=["ours", "with an offset", "Hudi's microseconds", "null", "no zone", "beyond Python", "beyond 64 bits"],
)
def test_the_folder_of_a_timestamp_says_its_instant_or_nothing(
    text: str, values: partition_values.Candidates | None
) -> None:
    assert partition_values.candidates(f"at={text}", "at", LiteralKind.TIMESTAMP) == values
