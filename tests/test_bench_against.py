"""The comparison of a benchmark with that of another revision reads what benchmarks print."""

from __future__ import annotations

from benchmarks import against


def test_each_line_of_a_figure_gives_its_first_number() -> None:
    printed = [
        "(a) plain SQL, one table, 64 clients: 1,270 cycles/s\n",
        "(b) REST, 64 writers, one table, against the best: 792 cycles/s = 1.29 x\n",
        "(b) longest wait over median (153 ms / 81 ms): 1.9 x\n",
        "(d) begin in batches of 1000, 4 writers, one table: 19,956 instants/s\n",
        "2026-11-25T16:54:58Z [warning  ] table cannot be published\n",
        "│ (a) plain SQL │ 1,270 cycles/s │\n",
    ]

    assert against.figures(printed) == {
        "(a) plain SQL, one table, 64 clients": 1_270,
        "(b) REST, 64 writers, one table, against the best": 792,
        "(b) longest wait over median": 1.9,
        "(d) begin in batches of 1000, 4 writers, one table": 19_956,
    }
