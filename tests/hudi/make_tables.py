"""Make the tables in ``tests/hudi/tables`` with Hudi itself, in the environment of ``make test-hudi``.

``.hudi-env/bin/python tests/hudi/make_tables.py --jar <bundle.jar> [name ...]``. Each table is a ``.tar.gz`` of
a folder, without checksums, metadata table and lock files. ``rows.json`` has the rows that Hudi reads of each.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

TABLES = Path(__file__).parent / "tables"
COLUMNS = "id bigint, name string, price double, day string, ts bigint"
Row = tuple[int, str, float, str, int]
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
QUIET = {
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.table.timeline.timezone": "UTC",
    # Hudi makes room for 60,000 keys in the bloom filter of each file: half a megabyte.
    "hoodie.index.bloom.num_entries": "10",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    **{f"hoodie.{name}.shuffle.parallelism": "1" for name in ("upsert", "insert", "bulkinsert", "delete")},
    **{f"hoodie.{name}.parallelism": "1" for name in ("finalize.write", "rollback", "cleaner")},
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.parquet.compression.codec": "gzip",
}


def session(jar: Path, others: Iterable[Path] = ()) -> SparkSession:
    """A session of one thread with Hudi in it, and with other jars."""
    return (
        SparkSession.builder.master("local[1]")
        .appName("tables of Hudi")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", str(jar))
        .config("spark.driver.extraClassPath", os.pathsep.join(map(str, others)))
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .getOrCreate()
    )


class HudiTable:
    """A table that Hudi writes."""

    def __init__(self, spark: SparkSession, path: Path, version: int, **options: str) -> None:
        self.spark = spark
        self.path = path
        self.options = {
            **QUIET,
            "hoodie.table.name": path.name,
            "hoodie.write.table.version": str(version),
            "hoodie.write.auto.upgrade": "false",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            **{name.replace("__", "."): value for name, value in options.items()},
        }
        # Without record keys Hudi makes them, and takes no empty name.
        self.options = {name: value for name, value in self.options.items() if value}

    def write(self, rows: Iterable[Row], operation: str = "upsert", **options: str) -> None:
        """Write rows by one instant, or several where options say so."""
        self.write_frame(self.spark.createDataFrame(list(rows), COLUMNS), operation, **options)

    def write_frame(self, frame: DataFrame, operation: str = "upsert", **options: str) -> None:
        """Write a frame."""
        named = {name.replace("__", "."): value for name, value in options.items()}
        writer = frame.coalesce(1).write.format("hudi").options(**self.options, **named)
        writer.option("hoodie.datasource.write.operation", operation).mode("append").save(str(self.path))

    def alter(self, change: str) -> None:
        """Change the schema by SQL, with schema on read."""
        self.spark.sql("set hoodie.schema.on.read.enable=true")
        # Without it a rename is refused, because the new schema lacks the old name.
        self.spark.sql("set hoodie.datasource.write.schema.allow.auto.evolution.column.drop=true")
        self.spark.sql(f"create table if not exists {self.path.name} using hudi location '{self.path}'")
        self.spark.sql(f"alter table {self.path.name} {change}")
        self.spark.sql("set hoodie.schema.on.read.enable=false")

    def call(self, procedure: str, **arguments: str) -> None:
        """Call a procedure of Hudi."""
        stated = ", ".join(f"{name} => {value}" for name, value in arguments.items())
        self.spark.sql(f"create table if not exists {self.path.name} using hudi location '{self.path}'")
        self.spark.sql(f"call {procedure}(table => '{self.path.name}', {stated})").collect()

    def update_some_columns(self, source: str, *columns: str) -> None:
        """Update columns of the rows of a query, by their ids; the log gets only these columns."""
        sql, name = self.spark.sql, self.path.name
        for option in ("write.table.version", "write.auto.upgrade", "metadata.enable", "embed.timeline.server"):
            self.spark.conf.set(f"hoodie.{option}", self.options[f"hoodie.{option}"])
        sql(f"create table if not exists {name} using hudi location '{self.path}'")
        assigned = ", ".join(f"{column} = s.{column}" for column in columns)
        sql(f"merge into {name} t using ({source}) s on t.id = s.id when matched then update set {assigned}")

    def last_instant(self) -> str:
        """The requested time of the instant that wrote last."""
        frame = self.spark.read.format("hudi").load(str(self.path))
        return str(frame.selectExpr("max(_hoodie_commit_time)").collect()[0][0])

    def rows(self) -> list[list[Any]]:
        """The rows that Hudi reads, by id."""
        frame = self.spark.read.format("hudi").load(str(self.path))
        own = [name for name in frame.columns if not name.startswith("_hoodie_")]
        return [[row[name] for name in sorted(own)] for row in frame.orderBy("id").collect()]

    def unpublish(self, suffix: str) -> None:
        """Turn the last completed instant of an action into a pending one, whose files stay."""
        folder = self.path / ".hoodie" / "timeline"
        folder = folder if folder.is_dir() else folder.parent
        sorted(path for path in folder.glob(f"2*.{suffix}") if "_" in path.name or folder.name == ".hoodie")[
            -1
        ].unlink()


def _rows(ids: Iterable[int], ts: int) -> list[Row]:
    return [(number, f"name {number} at {ts}", number * 1.5, DAYS[number % 3], ts) for number in ids]


PARTITIONED = {"hoodie__datasource__write__partitionpath__field": "day"}
PLAIN = {**PARTITIONED, "hoodie__datasource__write__hive_style_partitioning": "false"}
MERGE_ON_READ = {
    "hoodie__datasource__write__table__type": "MERGE_ON_READ",
    "hoodie__compact__inline": "false",
    "hoodie__logfile__data__block__format": "avro",
}
IN_LOGS = {"hoodie__index__type": "INMEMORY"}
AT_ONCE = "'hoodie.compact.inline.max.delta.commits=1'"
"""Plan a compaction after the first delta commit, not the fifth."""
LOG_COMPACTION = {
    "hoodie__log__compaction__enable": "true",
    "hoodie__log__compaction__inline": "true",
    "hoodie__log__compaction__blocks__threshold": "1",
}
KEYLESS = {"hoodie__datasource__write__recordkey__field": ""}
ORDERED = {"hoodie__datasource__write__precombine__field": "ts,price"}
BY_COMMIT = {"hoodie__write__record__merge__mode": "COMMIT_TIME_ORDERING"}
_TIMES = {
    "hoodie__keygen__timebased__timestamp__type": "DATE_STRING",
    "hoodie__keygen__timebased__input__dateformat": "yyyy-MM-dd",
    "hoodie__keygen__timebased__timezone": "UTC",
}
TIMESTAMPS = {
    **PLAIN,
    **_TIMES,
    "hoodie__keygen__timebased__output__dateformat": "yyyy/MM/dd",
    "hoodie__datasource__write__keygenerator__class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
}
CUSTOM = {
    **_TIMES,
    "hoodie__keygen__timebased__output__dateformat": "yyyy-MM",
    "hoodie__datasource__write__keygenerator__class": "org.apache.hudi.keygen.CustomKeyGenerator",
    "hoodie__datasource__write__partitionpath__field": "day:TIMESTAMP",
}
ARCHIVED = {
    "hoodie__clean__automatic": "true",
    "hoodie__clean__commits__retained": "2",
    "hoodie__archive__automatic": "true",
    "hoodie__keep__min__commits": "4",
    "hoodie__keep__max__commits": "5",
    "hoodie__timeline__compaction__batch__size": "4",
}

COMPACTS = {"hoodie__compact__inline": "true", "hoodie__compact__inline__max__delta__commits": "2"}
KEPT = {
    **ARCHIVED,
    "hoodie__clean__automatic": "false",
    "hoodie__keep__min__commits": "2",
    "hoodie__keep__max__commits": "3",
    "hoodie__timeline__compaction__batch__size": "3",
}
"""As many commits as possible are archived, and all of their files stay."""


def copy_on_write(table: HudiTable) -> None:
    """Inserts, upserts, deletes, an insert overwrite, a savepoint, a clean, a delete of a partition."""
    table.write(_rows(range(9), 1), "insert")
    table.write(_rows(range(3, 6), 2))
    table.call("create_savepoint", commit_time=f"'{table.last_instant()}'")
    table.write(_rows([1, 4], 3), "delete")
    table.write(_rows([20, 23], 4), "insert_overwrite")
    table.write(_rows([3, 6, 10], 5))
    table.call("run_clean", retain_commits="1")
    table.write(_rows([7, 11], 6))


def upserted(table: HudiTable) -> None:
    """An insert and an upsert."""
    table.write(_rows(range(6), 1), "insert")
    table.write(_rows([2, 3], 2))


def archived(table: HudiTable) -> None:
    """Enough commits that some of them are archived, and their files cleaned."""
    table.write(_rows(range(6), 1), "insert")
    table.write(_rows(range(100, 103), 2), "insert", hoodie__parquet__small__file__limit="0")
    for number in range(3, 11):
        table.write(_rows([number % 3, 20 + number], number))


def kept(table: HudiTable) -> None:
    """Each upsert updates one row and inserts one."""
    for number in range(1, 11):
        table.write(_rows([number % 3, 20 + number] if number > 1 else range(6), number))


def merge_on_read(table: HudiTable) -> None:
    """Logs, a compaction, and logs on top of it."""
    table.write(_rows(range(9), 1), "insert")
    table.write(_rows(range(3, 6), 2))
    table.write(_rows([1], 3), "delete")
    table.call("run_compaction", op="'scheduleAndExecute'", options=AT_ONCE)
    table.write(_rows([0, 4], 4))
    table.write(_rows([8], 5), "delete")


def partially_updated(table: HudiTable) -> None:
    """Updates of some columns over the base file, over each other, and with smaller ordering values."""
    table.write(_rows(range(6), 10), "insert")
    table.update_some_columns(
        "select bigint(1) id, 99.5D price, bigint(12) ts union all select bigint(2), 88.5D, bigint(5)",
        "price",
        "ts",
    )
    table.update_some_columns(
        "select bigint(1) id, 'one' name, bigint(11) ts union all select bigint(2), 'two', bigint(20) "
        "union all select bigint(3), 'three', bigint(13)",
        *("name", "ts"),
    )
    table.write(_rows([4], 11))
    table.update_some_columns("select bigint(4) id, 44.5D price, bigint(15) ts", "price", "ts")
    table.write(_rows([5], 30), "delete")


def log_compacted(table: HudiTable) -> None:
    """Log files that a log compaction has replaced, with a delete among them, and one after it."""
    table.write(_rows(range(6), 1), "insert")
    table.write(_rows([2, 3], 2))
    table.write(_rows([5], 9), "delete")
    table.write(_rows([0], 5), **LOG_COMPACTION)
    table.write(_rows([1, 3], 6))


def rolled_back(table: HudiTable) -> None:
    """Version 6: a failed write, whose blocks Hudi rolls back in the log, in the second of two slices."""
    table.write(_rows(range(6), 1), "insert")
    table.write(_rows([2, 3], 2))
    table.call("run_compaction", op="'scheduleAndExecute'", options=AT_ONCE)
    table.write(_rows([3, 4], 3))
    table.write(_rows(range(6), 8))
    table.unpublish("deltacommit")
    table.write(_rows([4], 4))
    table.write(_rows([5], 5), "delete")


def pending_logs(table: HudiTable) -> None:
    """Version 6: a compaction that waits, with later logs, and a write that did not complete."""
    table.write(_rows(range(6), 1), "insert")
    table.write(_rows([2, 3], 2))
    table.call("run_compaction", op="'schedule'", options=AT_ONCE)
    table.write(_rows([3, 4], 3))
    table.write(_rows([0], 4))
    table.unpublish("deltacommit")


def log_only(table: HudiTable) -> None:
    """A file group that has log files only, as an index begins them that finds records in log files."""
    table.write(_rows(range(6), 1))
    table.write(_rows([2, 3], 2))
    table.write(_rows([5], 9), "delete")


def pending(table: HudiTable) -> None:
    """A write that did not complete: its file is there."""
    upserted(table)
    table.unpublish("commit")


def pending_compaction(table: HudiTable) -> None:
    """A compaction that waits, with later logs, and a deltacommit that did not complete."""
    upserted(table)
    table.call("run_compaction", op="'schedule'", options=AT_ONCE)
    table.write(_rows([3, 4], 3))
    table.write(_rows([0], 4))
    table.unpublish("deltacommit")


def compacted(table: HudiTable) -> None:
    """Merge-on-read without a log that is not compacted."""
    upserted(table)
    table.call("run_compaction", op="'scheduleAndExecute'", options=AT_ONCE)


def evolved(table: HudiTable) -> None:
    """A column that came later, which older files do not have."""
    table.write(_rows(range(6), 1), "insert")
    wider = table.spark.createDataFrame([(100, "new", 1.0, DAYS[0], 2, "x")], f"{COLUMNS}, note string")
    table.write_frame(wider, "insert", hoodie__parquet__small__file__limit="0")


def schema_on_read(table: HudiTable) -> None:
    """Columns that were added and widened by SQL, with the schema on read that Hudi then keeps."""
    table.write(_rows(range(6), 1), "insert")
    table.alter("add columns (note string, count int)")
    _write_noted(table, [2, 3], "int")
    table.alter("alter column count type bigint")
    _write_noted(table, [4], "bigint")


def renamed(table: HudiTable) -> None:
    """A column that was renamed with the schema on read."""
    table.write(_rows(range(6), 1), "insert")
    table.alter("rename column price to cost")
    frame = table.spark.createDataFrame(_rows([2, 3], 2), COLUMNS).withColumnRenamed("price", "cost")
    table.write_frame(frame, hoodie__schema__on__read__enable="true")


def _write_noted(table: HudiTable, ids: list[int], type_: str) -> None:
    frame = table.spark.createDataFrame(_rows(ids, 2), COLUMNS).selectExpr(
        "*", "'noted' as note", f"cast(id as {type_}) as count"
    )
    table.write_frame(frame, hoodie__schema__on__read__enable="true")


def keyless(table: HudiTable) -> None:
    """Two inserts of rows without a key."""
    table.write(_rows(range(6), 1), "insert")
    table.write(_rows(range(3), 2), "insert")


def nested(table: HudiTable) -> None:
    """A record key within a struct."""
    for ids, ts in ((range(6), 1), ([2, 3], 2)):
        frame = table.spark.createDataFrame(_rows(ids, ts), COLUMNS)
        table.write_frame(frame.selectExpr("*", "named_struct('b', id, 'c', name) as a"))


def doubles(table: HudiTable) -> None:
    """A record key of type double."""
    for ids, ts in ((range(6), 1), ([2, 3], 2)):
        table.write_frame(
            table.spark.createDataFrame(_rows(ids, ts), COLUMNS).selectExpr(
                "*", "id * power(10D, id * 3 - 6) / 3 as ratio"
            )
        )


def flagged(table: HudiTable) -> None:
    """Deletes by the column _hoodie_is_deleted."""
    for ids, ts, deleted in ((range(6), 1, "false"), ([2, 3], 2, "id = 3")):
        frame = table.spark.createDataFrame(_rows(ids, ts), COLUMNS)
        table.write_frame(frame.selectExpr("*", f"{deleted} as _hoodie_is_deleted"))


def ordered(table: HudiTable) -> None:
    """Two ordering fields, whose order decides in an upsert: the second where the first is equal."""
    table.write(_rows(range(6), 5), "insert")
    table.write([(2, "newer by price", 100.0, DAYS[2], 5), (3, "older by ts", 100.0, DAYS[0], 4)])
    table.write([(2, "older by price", 50.0, DAYS[2], 5), (4, "newer by ts", 0.0, DAYS[1], 6)])


def ordered_logs(table: HudiTable) -> None:
    """As ``ordered``, and deletes: with both ordering values, by a flag, and without any, by the operation."""

    def write(rows: list[Row], deleted: str = "false", operation: str = "upsert") -> None:
        frame = table.spark.createDataFrame(rows, COLUMNS)
        table.write_frame(frame.selectExpr("*", f"{deleted} as _hoodie_is_deleted"), operation)

    write(_rows(range(8), 5), operation="insert")
    write([(2, "newer by price", 100.0, DAYS[2], 5), (3, "older by ts", 100.0, DAYS[0], 4)])
    write([(2, "older by price", 50.0, DAYS[2], 5), (4, "newer by ts", 0.0, DAYS[1], 6)])
    gone = [
        (0, "equal", 0.0, DAYS[0], 5),
        (1, "older by price", 1.0, DAYS[1], 5),
        (5, "by ts", 0.0, DAYS[2], 6),
    ]
    write([*gone, (6, "by price", 9.5, DAYS[0], 5)], deleted="true")
    write([(0, "back by price", 0.5, DAYS[0], 5), (5, "still gone", -1.0, DAYS[2], 6)])
    table.write(_rows([7], 1), "delete")


def slashed(table: HudiTable) -> None:
    """Partition values with slashes, which are not escaped."""
    for ids, ts in ((range(6), 1), ([2, 3], 2)):
        frame = table.spark.createDataFrame(_rows(ids, ts), COLUMNS)
        table.write_frame(frame.selectExpr("id", "name", "price", "replace(day, '-', '/') as day", "ts"))


def upgraded(table: HudiTable) -> None:
    """Merge-on-read of version 6 with logs and an archive, then upgraded to 8 and to 9, with writes between."""
    merge_on_read(table)
    for number in range(6, 16):
        table.write(_rows([number % 3, 20 + number], number))
    for version in ("8", "9"):
        table.options |= {"hoodie.write.table.version": version, "hoodie.write.auto.upgrade": "true"}
        table.write(_rows([3, 40 + int(version)], 20 + int(version)))


Recipe = tuple[int, dict[str, str], Callable[[HudiTable], None]]
RECIPES: dict[str, Recipe] = {
    "cow8": (8, PARTITIONED, copy_on_write),
    "cow9": (9, {}, copy_on_write),
    "plain8": (8, PLAIN, upserted),
    "cow6": (6, PARTITIONED, copy_on_write),
    "archived8": (8, ARCHIVED, archived),
    "archived6": (6, ARCHIVED, archived),
    "kept8": (8, KEPT, kept),
    "kept9": (9, {**PARTITIONED, **KEPT}, kept),
    "keptmor9": (9, {**MERGE_ON_READ, **KEPT, **COMPACTS}, kept),
    "kept6": (6, KEPT, kept),
    "pending8": (8, {}, pending),
    "evolved9": (9, {}, evolved),
    "mor9": (9, {**PARTITIONED, **MERGE_ON_READ}, merge_on_read),
    "mor8": (8, MERGE_ON_READ, merge_on_read),
    "mor6": (6, MERGE_ON_READ, merge_on_read),
    "compacted6": (6, MERGE_ON_READ, compacted),
    "partial9": (9, MERGE_ON_READ, partially_updated),
    "logcompacted9": (9, MERGE_ON_READ, log_compacted),
    "logcompacted6": (6, MERGE_ON_READ, log_compacted),
    "logonly9": (9, {**MERGE_ON_READ, **IN_LOGS}, log_only),
    "logs6": (6, {**PARTITIONED, **MERGE_ON_READ}, merge_on_read),
    "rolledback6": (6, MERGE_ON_READ, rolled_back),
    "pendinglogs6": (6, MERGE_ON_READ, pending_logs),
    "pendingmor8": (8, MERGE_ON_READ, pending_compaction),
    "schema9": (9, PARTITIONED, schema_on_read),
    "renamed9": (9, PARTITIONED, renamed),
    "keyless9": (9, {**PARTITIONED, **KEYLESS}, keyless),
    "nested9": (9, {**PARTITIONED, "hoodie__datasource__write__recordkey__field": "a.b"}, nested),
    "double9": (9, {"hoodie__datasource__write__recordkey__field": "ratio"}, doubles),
    "flagged9": (9, PARTITIONED, flagged),
    "ordered9": (9, {**PARTITIONED, **ORDERED}, ordered),
    "orderedmor9": (9, {**ORDERED, **MERGE_ON_READ}, ordered),
    "ordereddeletes9": (9, {**ORDERED, **MERGE_ON_READ}, ordered_logs),
    "ordereddeletes6": (6, {**ORDERED, **MERGE_ON_READ}, ordered_logs),
    "bycommit9": (9, {**ORDERED, **MERGE_ON_READ, **BY_COMMIT}, ordered),
    "timestamp9": (9, TIMESTAMPS, upserted),
    "custom8": (8, {**MERGE_ON_READ, **CUSTOM}, merge_on_read),
    "slashed8": (8, PLAIN, slashed),
    "captured9": (9, {**PARTITIONED, "hoodie__table__cdc__enabled": "true"}, upserted),
    "upgraded9": (6, {**PARTITIONED, **MERGE_ON_READ, **ARCHIVED}, upgraded),
}


def pack(path: Path) -> None:
    """Pack a table without what no reader needs."""

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        folders = ("metadata", ".locks", ".temp", ".heartbeat", ".aux")
        unwanted = (".crc", *(f"/.hoodie/{name}" for name in folders))
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return None if any(part in f"/{member.name}" for part in unwanted) else member

    TABLES.mkdir(exist_ok=True)
    with tarfile.open(TABLES / f"{path.name}.tar.gz", "w:gz") as archive:
        archive.add(path, path.name, filter=kept)


def main() -> None:
    """Make the named tables, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jar", type=Path, required=True)
    parser.add_argument("--folder", type=Path, help="where the tables are made; default: a temporary one")
    parser.add_argument("names", nargs="*", default=list(RECIPES))
    arguments = parser.parse_args()
    spark = session(arguments.jar)
    spark.sparkContext.setLogLevel("ERROR")
    rows_file = TABLES / "rows.json"
    rows = json.loads(rows_file.read_text()) if rows_file.exists() else {}
    folder = arguments.folder or Path(tempfile.mkdtemp())
    for name in arguments.names:
        version, options, make = RECIPES[name]
        shutil.rmtree(folder / name, ignore_errors=True)
        table = HudiTable(spark, folder / name, version, **options)
        make(table)
        rows[name] = table.rows()
        pack(folder / name)
        rows_file.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
        print(name, len(rows[name]), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
