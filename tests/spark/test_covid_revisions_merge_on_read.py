"""The sixty revisions of ``covid.py`` in a merge-on-read table: all but the first append log files."""

from __future__ import annotations

import pytest

from tests.spark import covid

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class TestMergeOnRead(covid.EachRevision):
    """With an ordering field that is never null, so that Hudi's readers can merge the log files."""

    layout = ("--table-type", "merge_on_read", "--schema", "revision INT NOT NULL")
