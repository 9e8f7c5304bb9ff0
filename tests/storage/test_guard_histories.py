"""The guard under attack: no file that the oracle calls safe is deleted; holes in the guard are found."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import chronolake
from chronolake_storage import guard, local
from tests.storage.guard_histories import History, SafeFileGone

HISTORIES = 15
HISTORIES_LONG = 1_000
HISTORIES_UNTIL_FOUND = 200

Play = Callable[[int], None]


@pytest.fixture
def play(shared_server_url: str, tmp_path: Path) -> Iterator[Play]:
    """Plays the history of a seed, over real files and a real server."""
    with chronolake.connect(shared_server_url, retry_seconds=10) as client:
        namespace = client.create_namespace(f"ns_{uuid.uuid4().hex[:12]}").name
        yield lambda seed: History(client, namespace, tmp_path / f"h{seed}", seed).play()


def test_a_file_that_the_oracle_calls_safe_is_never_deleted(play: Play) -> None:
    for seed in range(HISTORIES):
        play(seed)


@pytest.mark.slow
def test_a_file_that_the_oracle_calls_safe_is_never_deleted_in_a_thousand_histories(play: Play) -> None:
    for seed in range(HISTORIES, HISTORIES + HISTORIES_LONG):
        play(seed)


def split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


HOLES: Mapping[str, list[tuple[Any, str, Any]]] = {
    "claim": [(guard, "check_claim", lambda *_: None)],
    # The local disk looks at paths itself, too.
    "containment": [
        (guard, "check_contained", lambda _: None),
        (guard, "check_name", lambda *_: None),
        (guard, "find_needed", lambda *_: {}),
        (local, "check_path", split),
    ],
    "name": [(guard, "check_name", lambda *_: None)],
    "needed": [(guard, "find_needed", lambda *_: {})],
}


@pytest.mark.parametrize("hole", HOLES)
def test_a_hole_in_the_guard_is_detected(play: Play, monkeypatch: pytest.MonkeyPatch, hole: str) -> None:
    for module, name, planted in HOLES[hole]:
        monkeypatch.setattr(module, name, planted)

    with pytest.raises(SafeFileGone):
        for seed in range(HISTORIES_UNTIL_FOUND):
            play(seed)
