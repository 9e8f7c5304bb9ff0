"""The sixty revisions of ``covid.py`` in a table without partitions."""

from __future__ import annotations

import pytest

from tests.spark import covid

pytestmark = pytest.mark.spark


class TestUnpartitioned(covid.EachRevision):
    """Without further options."""
