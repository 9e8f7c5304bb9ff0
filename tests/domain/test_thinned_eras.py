"""The partitions of old eras: they stay few, whatever leaves."""

from __future__ import annotations

from hypothesis import given, strategies as st

from chronolake_metastore.domain.eras import MERGED_PARTS, CountedEvents, EraPart, to_thin
from chronolake_model.times import Micros


@given(st.integers(0, 20), st.lists(st.integers(0, 20), min_size=100, max_size=400))
def test_partitions_stay_few_when_an_era_ends_each_day(leaving_max: int, days: list[int]) -> None:
    parts: list[EraPart] = []
    counts: dict[int, CountedEvents] = {}
    for era, events in enumerate(days, 1):
        parts.append(EraPart(era, era, Micros(era), era, has_left=False))
        counts[era] = CountedEvents(events, min(events, leaving_max))
        for group in to_thin(parts, counts):
            first, last = group[0], group[-1]
            stay = sum(counts[part.last].events - counts[part.last].leaving for part in group)
            parts[parts.index(first) : parts.index(last) + 1] = [
                EraPart(first.first, last.last, last.ended_at, last.ended_before, has_left=True)
            ]
            counts[last.last] = CountedEvents(stay, 0)
        assert len(parts) <= MERGED_PARTS
        assert [part.first for part in parts] == [1, *(part.last + 1 for part in parts[:-1])]
