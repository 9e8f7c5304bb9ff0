"""The sixty revisions of ``covid.py`` in a merge-on-read table: all but the first append log files."""

from __future__ import annotations

import pytest
from typing_extensions import override

import chronolake
from chronolake import Field
from chronolake_model.vocabulary import TableType
from tests.spark import covid

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class TestMergeOnRead(covid.EachRevision):
    """With an ordering field that is never null, so that Hudi's readers can merge the log files."""

    @classmethod
    @override
    def create_table(cls, client: chronolake.Client, name: str, base_path: str) -> None:
        client.create_namespace("covid", if_not_exists=True)
        client.create_table(
            name,
            base_path=base_path,
            schema=[
                Field("date", "string"),
                Field("country", "string"),
                *(Field(count, "bigint") for count in covid.COUNTS),
                Field("revision", "int", nullable=False),
                Field("revised_at", "timestamp"),
            ],
            record_key_fields=covid.KEY,
            type=TableType.MERGE_ON_READ,
            ordering_field="revision",
        )
