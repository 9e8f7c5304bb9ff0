"""The data source of writes, without a JVM."""

from __future__ import annotations

import gc

import pytest

from chronolake_spark.write import data_source


def test_a_worker_exempts_its_imports_from_garbage_collection_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[None] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(None))
    data_source.exempt_imports_from_gc.cache_clear()

    data_source.exempt_imports_from_gc()
    data_source.exempt_imports_from_gc()

    data_source.exempt_imports_from_gc.cache_clear()
    assert calls == [None]
