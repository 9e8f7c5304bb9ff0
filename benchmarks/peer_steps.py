"""The loop of a peer's process. It imports nothing of ours: the environments of peers run it too."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable


def answer(start: Callable[[], Callable[[str], float]]) -> None:
    """Start the peer, and answer each line of the input, a step, with its seconds, or an error."""
    # What Java prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    step = start()
    for line in sys.stdin:
        try:
            told: dict[str, object] = {"seconds": step(line.strip())}
        except Exception as exc:  # the edge of the process
            told = {"error": f"{type(exc).__name__}: {exc}"[:2_000]}
        answers.write(json.dumps(told) + "\n")
        answers.flush()
