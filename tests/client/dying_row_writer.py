"""A program that upserts rows, and stays still when their files are written, to be killed there.

``python -m tests.client.dying_row_writer URL TABLE``; it says ``here`` when it is there.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import chronolake
from chronolake._sync import table_writes
from chronolake.writing import bucket_writer


def main() -> None:
    """Write the files of an upsert, and stay."""
    url, name = sys.argv[1:]
    write = bucket_writer.write

    def write_and_stay(*arguments: Any, **named: Any) -> None:
        write(*arguments, **named)
        print("here", flush=True)
        time.sleep(3_600)

    bucket_writer.write = write_and_stay  # type: ignore[assignment]
    table_writes.default_writer = lambda: "killed"  # type: ignore[attr-defined]
    with chronolake.connect(url) as client:
        client.table(name).upsert([{"id": 1, "amount": 10, "note": "killed", "ts": 5, "day": "1"}])


if __name__ == "__main__":
    main()
