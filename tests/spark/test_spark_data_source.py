"""The data source of writes, without a JVM."""

from __future__ import annotations

import gc

import pytest

from chronolake_spark import spark_data_source


def test_a_worker_exempts_its_imports_from_garbage_collection_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[None] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(None))
    spark_data_source.exempt_imports_from_gc.cache_clear()

    spark_data_source.exempt_imports_from_gc()
    spark_data_source.exempt_imports_from_gc()

    spark_data_source.exempt_imports_from_gc.cache_clear()
    assert calls == [None]
