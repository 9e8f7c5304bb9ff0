"""A driver that writes frames one after the other: ``python -m tests.spark.writing_driver <rounds>``."""

from __future__ import annotations

import sys

import msgspec
from pyspark.sql import DataFrame, SparkSession

import chronolake
import chronolake_spark
from chronolake_spark.write import shuffles

SHOPS = 3


class Rounds(msgspec.Struct, frozen=True):
    """Upserts of ``records`` records each; every round begins ``step`` ids later.

    The prices of round n are ``first_price + n``. Half of each frame is inserted before, where it is new.
    """

    url: str
    table: str
    rounds: int
    first_id: int
    step: int
    records: int
    first_price: int


def frame(spark: SparkSession, rounds: Rounds, number: int) -> DataFrame:
    """The rows of a round: the shop of a record changes with its price."""
    first, price = rounds.first_id + rounds.step * number, rounds.first_price + number
    ids = spark.range(first, first + rounds.records, numPartitions=2)
    return ids.selectExpr("id", f"(id + {price}) % {SHOPS} as shop", f"{price}L as price")


def main(rounds: Rounds) -> None:
    """Write all rounds."""
    spark = chronolake_spark.session("writing", master="local[2]", memory="512m")
    shuffles.SMALL_BYTES = 0
    with chronolake.connect(rounds.url) as client:
        table = chronolake_spark.table(spark, rounds.table, client=client)
        for number in range(rounds.rounds):
            rows = frame(spark, rounds, number)
            price = str(rounds.first_price + number)
            inserted = {"prices": price, "inserts": "true"}
            new = rows.where(f"id % 2 = {number % 2}")
            table.insert(new, "drop", on_conflict="retry", extra_metadata=inserted)
            table.upsert(rows, on_conflict="retry", extra_metadata={"prices": price})
    spark.stop()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Rounds))
