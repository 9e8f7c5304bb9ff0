"""Promise 4: results that earlier servers recorded are answered with the same bytes by this one.

``recorded_results.json`` has a recorded result of each kind and revision, and the body of its answer. An entry
never changes: a body that is to change is that of a new revision of the kind, with an entry of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from chronolake_metastore.api.v1 import rendering
from chronolake_metastore.domain import results

ENTRIES = json.loads(Path(__file__).with_name("recorded_results.json").read_text(encoding="utf-8"))
KEY = "a-key"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: json.loads(entry["result"])["type"])
def test_a_recorded_result_has_the_answer_that_it_always_had(entry: dict[str, str]) -> None:
    recorded = results.decode(KEY, entry["result"].encode())
    assert rendering.V1.render(recorded, KEY).decode() == entry["answer"]


def test_every_kind_of_result_has_an_answer_that_stays() -> None:
    kinds = {kind.__struct_config__.tag for kind in get_args(results.AnyRecorded)}
    assert {json.loads(entry["result"])["type"] for entry in ENTRIES} == kinds
