"""Peers that run in processes and environments of their own, and take the steps of a benchmark in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from benchmarks import reporting
from benchmarks.reporting import Row


class Peer:
    """The process of a peer: a script beside this file, which ``peer_steps.answer`` runs."""

    def __init__(
        self, name: str, python: str, script: str, arguments: Sequence[object], env: Mapping[str, str]
    ):
        self._name = name
        self._process = subprocess.Popen(
            [python, Path(__file__).with_name(script), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1", **env},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def step(self, step: str) -> float:
        """The seconds of a step. Raises ``RuntimeError`` if it failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{step}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"error": "its process has ended"}')
        if "error" in answer:
            raise RuntimeError(f"{self._name} failed at {step!r}: {answer['error']}")
        return float(answer["seconds"])


def compared(own: Callable[[str], float], peer: Peer, steps: Sequence[str], rounds: int) -> Iterator[Row]:
    """A row for each step: the medians of both, in turns, after a first round."""
    taken: dict[str, list[tuple[float, float]]] = {step: [] for step in steps}
    for _ in range(rounds + 1):
        for step in steps:
            taken[step].append((own(step), peer.step(step)))
    for step, pairs in taken.items():
        ours, theirs = (statistics.median(seconds) for seconds in zip(*pairs[1:], strict=True))
        yield reporting.at_most(f"{step} ({ours:.2f} of {theirs:.2f} s)", ours / theirs, 1, "x")
