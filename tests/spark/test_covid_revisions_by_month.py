"""The sixty revisions of ``covid.py`` in a table partitioned by month."""

from __future__ import annotations

import pytest

from tests.spark import covid

pytestmark = pytest.mark.spark


class TestByMonth(covid.EachRevision):
    layout = ("--partition", "month=substr(date,1,7)")
