"""TPC-H's orders as a stream of changes, always the same: a first load, corrections, late updates, deletes.

Each row has the time of its change (``updated_at``, the ordering field) and its operation (``op``). A late row
has an older ``updated_at`` than the stored record, so it must not win.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SCALE_FACTOR = "0.1"
"""A scale of TPC-H: 150,000 orders."""


def generate(folder: Path) -> None:
    """Write the stream's files into ``folder``, all or none.

    Raises ``OSError`` or ``subprocess.CalledProcessError`` when ``tpchgen-cli`` fails.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        orders = _orders(Path(temporary))
        stream = Path(temporary) / "stream"
        stream.mkdir()
        for number, (name, changes) in enumerate(_changes(orders)):
            pq.write_table(changes, stream / f"{number:03d}-{name}.parquet")
        stream.rename(folder)


def _orders(folder: Path) -> pa.Table:
    program = Path(sys.executable).with_name("tpchgen-cli")
    command = [str(program), "parquet", "-s", SCALE_FACTOR, "--tables=orders", f"--output-dir={folder}"]
    subprocess.run(command, check=True, capture_output=True)
    orders = pq.read_table(folder / "orders.parquet")
    plain = [pa.field(field.name, _plain(field.type)) for field in orders.schema]
    return orders.cast(pa.schema(plain))


def _plain(type_: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_string_view(type_) else type_


def _changes(orders: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The files, by name: which orders (by their number), how many days after the order, and the change."""
    known, new = _except_every(orders, 10), _every(orders, 10)
    half = len(new) // 2
    yield "first-load", _as_changes(known, days=0)
    yield (
        "new-and-corrected",
        _both(_as_changes(new.slice(0, half), days=0), _as_changes(_dearer(_every(known, 97)), days=30)),
    )
    # Older than the corrections, so that it changes only orders that were not corrected.
    yield "late-news", _as_changes(_with_status(_every(known, 7), "P"), days=10)
    yield (
        "new-and-shipped",
        _both(_as_changes(new.slice(half), days=0), _as_changes(_with_status(_every(known, 53), "F"), days=60)),
    )
    yield (
        "corrected-and-cancelled",
        _both(
            _as_changes(_dearer(_every(known, 899)), days=90),
            _as_changes(_every(orders, 101), days=99, op="delete"),
        ),
    )


def _both(first: pa.Table, second: pa.Table) -> pa.Table:
    return pa.concat_tables([first, second])


def _every(orders: pa.Table, step: int) -> pa.Table:
    return orders.filter(_is_multiple(orders, step))


def _except_every(orders: pa.Table, step: int) -> pa.Table:
    return orders.filter(pc.invert(_is_multiple(orders, step)))


def _is_multiple(orders: pa.Table, step: int) -> pa.ChunkedArray:
    keys = orders["o_orderkey"]
    return pc.equal(pc.multiply(pc.divide(keys, step), step), keys)


def _as_changes(orders: pa.Table, *, days: int, op: str = "upsert") -> pa.Table:
    """``orders`` as changes that were true this many days after each was placed."""
    placed = orders["o_orderdate"].cast(pa.timestamp("us", tz="UTC"))
    updated_at = pc.add(placed, pa.scalar(timedelta(days=days)))
    return orders.append_column("updated_at", updated_at).append_column("op", pa.repeat(op, len(orders)))


def _dearer(orders: pa.Table) -> pa.Table:
    price = orders["o_totalprice"]
    raised = pc.multiply(price, pa.scalar(2)).cast(price.type)
    return orders.set_column(orders.schema.get_field_index("o_totalprice"), "o_totalprice", raised)


def _with_status(orders: pa.Table, status: str) -> pa.Table:
    column = pa.repeat(status, len(orders))
    return orders.set_column(orders.schema.get_field_index("o_orderstatus"), "o_orderstatus", column)
