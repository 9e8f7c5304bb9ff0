"""Faults of MERGE, UPDATE and DELETE that users of other table formats reported, each as rows and statements.

A case is named by its report. Its statements name the target ``{t}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """A table, statements on it, and the rows expected after them, or the error of the last statement.

    ``columns`` is the DDL of the table, ``rows`` the SQL of its first rows. With ``refused`` the expected rows
    are still there after the error. ``reads`` is what is selected. ``make test`` runs those that are ``soon``.
    """

    columns: str
    rows: str
    statements: Sequence[str]
    expected: Rows
    refused: str = ""
    key: str = "id"
    partition: tuple[str, ...] = ()
    reads: str = "*"
    settings: Mapping[str, str] = field(default_factory=dict)
    soon: bool = False


def merge(source: str, clauses: str, on: str = "t.id = s.id") -> list[str]:
    """One MERGE of the source, which is SQL of a table."""
    return [f"MERGE INTO {{t}} t USING {source} s ON {on} {clauses}"]


def values(rows: str, names: str) -> str:
    """Rows as the source of a MERGE."""
    return f"(SELECT * FROM VALUES {rows} AS v ({names}))"


_UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_ADAPTIVE = {"spark.sql.adaptive.enabled": "true"}
_SMALL = "id long, v int"

MATCHING: dict[str, Case] = {
    "Delta #780: a null in the source matches nothing, and is no key": Case(
        _SMALL,
        "(1, 1)",
        merge(values("(null, 5)", "id, v"), _UPSERT),
        [(1, 1)],
        refused="record key",
    ),
    "PostHog #75601: a null in one column of the key matches by <=>": Case(
        "id long, part string, v int",
        "(1, null, 1), (1, 'x', 2)",
        merge(
            values("(1, null, 10), (1, 'x', 20), (2, null, 30)", "id, part, v"),
            _UPSERT,
            on="t.id = s.id AND t.part <=> s.part",
        ),
        [(1, None, 10), (1, "x", 20), (2, None, 30)],
        key="id,part",
    ),
    "Delta #246: rows that match several times do not disturb a MERGE that only inserts": Case(
        _SMALL,
        "(1, 1), (2, 2)",
        merge(values("(1, 5), (1, 6), (3, 3)", "id, v"), "WHEN NOT MATCHED THEN INSERT *"),
        [(1, 1), (2, 2), (3, 3)],
    ),
    "Delta #461: a matched row that no clause takes is not inserted": Case(
        "id long, hash string",
        "(1, 'a'), (2, 'b'), (3, null)",
        merge(
            values("(1, 'a'), (2, 'c'), (3, 'd'), (4, 'e')", "id, hash"),
            "WHEN MATCHED AND s.hash <> t.hash THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        ),
        [(1, "a"), (2, "c"), (3, None), (4, "e")],
        soon=True,
    ),
    "Delta #2406: two equal rows of the source for one record are refused": Case(
        _SMALL,
        "(1, 1)",
        merge(values("(1, 5), (1, 5)", "id, v"), "WHEN MATCHED THEN UPDATE SET *"),
        [(1, 1)],
        refused="MERGE_CARDINALITY_VIOLATION",
    ),
    "Delta #1274: rows that several rows of the source delete are deleted": Case(
        _SMALL,
        "(1, 1), (2, 2), (3, 3), (4, 4)",
        merge(
            values("(7, 7), (8, 8), (9, 9)", "id, v"),
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
            on="t.id >= 3",
        ),
        [(1, 1), (2, 2)],
        soon=True,
    ),
    "Delta #434: a record that two equal keys of the source delete is deleted": Case(
        _SMALL,
        "(1, 1), (2, 2)",
        merge(
            values("(1, 0), (1, 0), (3, 3)", "id, v"), "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
        ),
        [(2, 2), (3, 3)],
        soon=True,
    ),
    "Iceberg #3826: several UPDATE and DELETE clauses, of which the first that holds counts": Case(
        "id long, valid int, ts int",
        "(1, 0, 1), (2, 1, 1), (3, 1, 9), (4, 2, 1)",
        merge(
            values("(1, 5, 5), (2, 5, 5), (3, 5, 5), (4, 5, 5), (5, 5, 5)", "id, valid, ts"),
            "WHEN MATCHED AND t.valid = 0 AND s.ts > t.ts THEN UPDATE SET * "
            "WHEN MATCHED AND t.valid = 1 AND s.ts > t.ts THEN UPDATE SET t.ts = s.ts "
            "WHEN MATCHED AND t.valid = 2 THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        ),
        [(1, 5, 5), (2, 1, 5), (3, 1, 9), (5, 5, 5)],
        soon=True,
    ),
    "Iceberg #11953: an empty source deletes nothing": Case(
        _SMALL,
        "(1, 1), (2, 2)",
        merge("(SELECT id, v FROM {t} WHERE v > 100)", _UPSERT),
        [(1, 1), (2, 2)],
        settings=_ADAPTIVE,
    ),
    "Iceberg #2533: a merge into an empty table, with adaptive plans": Case(
        _SMALL,
        "",
        merge("(SELECT id, 1 AS v FROM range(3))", _UPSERT),
        [(0, 1), (1, 1), (2, 1)],
        settings=_ADAPTIVE,
        soon=True,
    ),
    "Iceberg #12558: WHEN MATCHED AND 1 > 2 changes nothing": Case(
        _SMALL,
        "(1, 1)",
        merge(
            values("(1, 5), (2, 6)", "id, v"),
            "WHEN MATCHED AND 1 > 2 THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        ),
        [(1, 1), (2, 6)],
    ),
    "Paimon #9155: NOT MATCHED BY SOURCE takes the rows that ON leaves out": Case(
        "id long, c string, pt string",
        "(1, 'c1', 'p1'), (2, 'c2', 'p1'), (3, 'c3', 'p2'), (4, 'c4', 'p2')",
        merge(
            values("(1, 'new')", "id, c"),
            "WHEN MATCHED THEN UPDATE SET c = s.c WHEN NOT MATCHED BY SOURCE THEN UPDATE SET c = 'stale'",
            on="t.id = s.id AND t.pt = 'p1'",
        ),
        [(1, "new", "p1"), (2, "stale", "p1"), (3, "stale", "p2"), (4, "stale", "p2")],
        partition=("pt",),
        soon=True,
    ),
    "delta-rs #4572: a merge of a table with itself": Case(
        _SMALL,
        "(1, 1), (2, 2)",
        merge("{t}", "WHEN MATCHED THEN UPDATE SET v = s.v + t.v"),
        [(1, 2), (2, 4)],
    ),
    "Hudi #6626: a key that the condition casts": Case(
        "id long, name string",
        "(1, 'a'), (2, 'b')",
        merge(
            values("(1.0, 'x'), (3.0, 'y')", "n, name"),
            "WHEN MATCHED THEN UPDATE SET name = s.name "
            "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.n, s.name)",
            on="CAST(t.id AS DECIMAL(20, 0)) = s.n",
        ),
        [(1, "x"), (2, "b"), (3, "y")],
    ),
    "matrixone #26504: NaN matches NaN, and -0.0 matches 0.0": Case(
        "id long, d double",
        "(1, double('NaN')), (2, -0.0d), (3, 0.0d), (4, 1.0d)",
        [
            "DELETE FROM {t} WHERE d = double('NaN')",
            "UPDATE {t} SET d = 7 WHERE d = 0.0d",
            *merge(values("(1.0d), (double('NaN'))", "d"), "WHEN MATCHED THEN DELETE", on="t.d = s.d"),
        ],
        [(2, 7.0), (3, 7.0)],
        soon=True,
    ),
    "Spark #56515: the source is a view of another query of the table": Case(
        _SMALL,
        "(1, 1), (2, 2)",
        [
            "CREATE OR REPLACE TEMPORARY VIEW changed AS SELECT id + 1 AS id, v * 10 AS v FROM {t}",
            "MERGE INTO {t} t USING changed s ON t.id = s.id " + _UPSERT,
            "MERGE INTO {t} t USING changed s ON t.id = s.id " + _UPSERT,
        ],
        [(1, 1), (2, 10), (3, 100), (4, 200)],
    ),
    "sqlfluff #6897: the source is a common table expression": Case(
        _SMALL,
        "(1, 1), (2, 2)",
        [
            "WITH u AS (SELECT id, v FROM {t} WHERE id = 2) MERGE INTO {t} t USING u ON t.id = u.id "
            "WHEN MATCHED THEN UPDATE SET v = u.v * 5",
            "MERGE INTO {t} t USING (WITH w AS (SELECT max(v) AS v FROM {t}) SELECT 3L AS id, v FROM w) s "
            "ON t.id = s.id " + _UPSERT,
        ],
        [(1, 1), (2, 10), (3, 10)],
        soon=True,
    ),
}

NAMES: dict[str, Case] = {
    "Delta #208: a column with a dot, also of a record that moves": Case(
        "id long, `people.name` string, `a b` string, day string",
        "(1, 'x', 'q', 'm'), (2, 'y', 'r', 'm')",
        [
            *merge(values("(1, 'z', 'q', 'm'), (3, 'w', 's', 'n')", "id, `people.name`, `a b`, day"), _UPSERT),
            "UPDATE {t} SET day = 'o', `people.name` = 'moved' WHERE `people.name` = 'y'",
            "UPDATE {t} SET id = 4 - id WHERE id IN (1, 3)",
        ],
        [(1, "w", "s", "n"), (2, "moved", "r", "o"), (3, "z", "q", "m")],
        partition=("day",),
        soon=True,
    ),
    "Delta #707: columns of dashes, digits, keywords and letters that are not ASCII": Case(
        "`id-0` long, `1inch` int, `select` int, `größe` string, `Y` int",
        "(1, 1, 1, 'ä', 1)",
        [
            *merge(
                values("(1, 2, 3, 'ß', 4), (2, 3, 4, '表', 5)", "`id-0`, `1inch`, `select`, `größe`, `Y`"),
                _UPSERT,
                on="t.`id-0` = s.`id-0`",
            ),
            "UPDATE {t} SET `select` = `1inch`, `größe` = concat(`größe`, '🙂') WHERE `Y` = 5",
        ],
        [(1, 2, 3, "ß", 4), (2, 3, 3, "表🙂", 5)],
        key="id-0",
    ),
    "Hudi #10558: columns in another case than the table's": Case(
        "id long, userName string",
        "(1, 'a')",
        merge(
            values("(1, 'b'), (2, 'c')", "ID, USERNAME"),
            "WHEN MATCHED THEN UPDATE SET username = S.userNAME WHEN NOT MATCHED THEN INSERT *",
            on="T.Id = s.ID",
        ),
        [(1, "b"), (2, "c")],
    ),
    "Hudi #6620: columns of the source in another order, by their names": Case(
        "id long, v int, w int, dep string",
        "(1, 1, 2, 'a')",
        merge(values("('b', 20, 1, 10), ('c', 40, 2, 30)", "dep, w, id, v"), _UPSERT),
        [(1, 10, 20, "b"), (2, 30, 40, "c")],
    ),
    "Iceberg #5408: schema evolution adds no column that differs in its case": Case(
        _SMALL,
        "(1, 1)",
        [
            "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 1L AS ID, 5 AS V) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET *"
        ],
        [(1, 5)],
    ),
    "Delta #4759: schema evolution inside a struct that only INSERT changes": Case(
        "id long, s struct<a: int>",
        "(1, named_struct('a', 1))",
        [
            "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING "
            "(SELECT * FROM VALUES (1L, named_struct('a', 5, 'b', 6)), (2L, named_struct('a', 7, 'b', 8)) "
            "AS v (id, s)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET t.id = s.id WHEN NOT MATCHED THEN INSERT *"
        ],
        [(1, 1, None), (2, 7, 8)],
        reads="id, s.a, s.b",
        soon=True,
    ),
    "Delta #3336: an alias of the target before a column, also one that is a column": Case(
        _SMALL,
        "(1, 1), (2, 2)",
        ["UPDATE {t} AS v SET v.v = v.v + 1 WHERE v.id = 1", "DELETE FROM {t} AS id WHERE id.id = 2"],
        [(1, 2)],
    ),
}

CONDITIONS: dict[str, Case] = {
    "Paimon #7482: DELETE keeps rows whose condition is null": Case(
        _SMALL,
        "(1, 1), (2, 2), (3, null)",
        [
            "DELETE FROM {t} WHERE v >= 2",
            "DELETE FROM {t} WHERE NOT (v = 1)",
            "DELETE FROM {t} WHERE v NOT IN (1, null)",
        ],
        [(1, 1), (3, None)],
        soon=True,
    ),
    "Delta #730: a DELETE by IN of a query, also of the table itself": Case(
        _SMALL,
        "(1, 1), (2, 2), (3, 3)",
        [
            "DELETE FROM {t} WHERE id IN (SELECT id FROM {t} WHERE v = 1)",
            "DELETE FROM {t} WHERE id NOT IN (SELECT CAST(id AS long) FROM VALUES (3) AS x (id))",
        ],
        [(3, 3)],
    ),
    "Delta #826: an UPDATE by IN and EXISTS of queries": Case(
        _SMALL,
        "(1, 1), (2, 2), (3, 3)",
        [
            "UPDATE {t} SET v = 1 WHERE v IN (SELECT max(v) FROM {t})",
            "UPDATE {t} t SET v = v + 10 WHERE EXISTS (SELECT 1 FROM {t} o WHERE o.v = t.v AND o.id < t.id)",
        ],
        [(1, 1), (2, 2), (3, 11)],
        settings=_ADAPTIVE,
        soon=True,
    ),
    "Iceberg #18004: an UPDATE by EXISTS doubles no row of another file": Case(
        "id long, v int, day int",
        "(1, 1, 0), (2, 2, 1), (3, 3, 2), (4, 4, 3)",
        ["UPDATE {t} t SET v = 0 WHERE EXISTS (SELECT 1 FROM VALUES (3) AS m (id) WHERE m.id = t.id)"],
        [(1, 1, 0), (2, 2, 1), (3, 0, 2), (4, 4, 3)],
        partition=("day",),
        settings=_ADAPTIVE,
    ),
    "Hudi #6146: a DELETE of a key that is not there": Case(
        _SMALL, "(1, 1), (2, 2)", ["DELETE FROM {t} WHERE id = 109"], [(1, 1), (2, 2)]
    ),
    "Delta #75: DELETE without a condition, or with one that is true": Case(
        _SMALL,
        "(1, 1), (2, 2)",
        ["DELETE FROM {t}", "INSERT INTO {t} VALUES (3, 3)", "DELETE FROM {t} WHERE true"],
        [],
    ),
    "Materialize #6247: a list of 3,000 values": Case(
        _SMALL,
        "(1, 1), (2999, 2), (5000, 3)",
        [f"DELETE FROM {{t}} WHERE id IN ({', '.join(map(str, range(3000)))})"],
        [(5000, 3)],
        soon=True,
    ),
    "ClickHouse #88186: a condition of time in another zone than that of the insert": Case(
        "id long, at timestamp",
        "(1, timestamp '2025-01-01 22:00:00+00:00'), (2, timestamp '2025-01-01 20:00:00+00:00')",
        [
            "UPDATE {t} SET at = at + INTERVAL 1 HOUR WHERE at >= timestamp '2025-01-02 00:30:00'",
            "DELETE FROM {t} WHERE at < timestamp '2025-01-01 23:30:00'",
        ],
        [(1, "2025-01-02 02:00:00")],
        reads="id, CAST(at AS string)",
        settings={"spark.sql.session.timeZone": "Europe/Istanbul"},
    ),
}

VALUES: dict[str, Case] = {
    "Delta #2248: a null struct stays null, and is no struct of nulls": Case(
        "id long, s struct<a: int, b: int>",
        "(1, named_struct('a', 1, 'b', 2)), (2, null)",
        merge(
            "(SELECT * FROM VALUES (1, null), (2, named_struct('a', 3, 'b', null)), (3, null) AS v (id, s))",
            _UPSERT,
        ),
        [(1, True, None), (2, False, 3), (3, True, None)],
        reads="id, s IS NULL, s.a",
        soon=True,
    ),
    "Iceberg #10557: a field of a struct of a struct, also of a null one": Case(
        "id long, base struct<info: struct<env: string, usr: string>, n: int>",
        "(1, named_struct('info', named_struct('env', 'dev', 'usr', 'u'), 'n', 1)), (2, null)",
        ["UPDATE {t} SET base.info.env = 'prod' WHERE id > 0"],
        [(1, "prod", "u", 1), (2, "prod", None, None)],
        reads="id, base.info.env, base.info.usr, base.n",
    ),
    "Iceberg #8948: a field inside an array is refused": Case(
        "id long, a array<struct<c: int>>",
        "(1, array(named_struct('c', 2)))",
        ["UPDATE {t} SET a.c = 3"],
        [(1, 2)],
        refused="only supported for StructType",
        reads="id, a[0].c",
    ),
    "Hudi #13227: every type changes in one MERGE": Case(
        "id long, b boolean, i int, f float, d double, n decimal(10,4), s string, day date, ts timestamp, "
        "y binary, l array<int>, m map<string,int>",
        "(1, true, 1, 1.5f, 2.5d, 1.0001, 'a', date '2021-12-25', timestamp '2021-12-25 12:01:01', x'01', "
        "array(1), map('k', 1)), (2, false, 2, 2.5f, 3.5d, 2.0002, 'b', date '2021-12-26', "
        "timestamp '2021-12-26 12:01:01', x'02', array(2, null), map())",
        merge(
            "(SELECT id, NOT b AS b, -i AS i, -f AS f, -d AS d, -n AS n, concat(s, '!') AS s, "
            "date_add(day, 1) AS day, ts + INTERVAL 1 MICROSECOND AS ts, y || x'ff' AS y, reverse(l) AS l, "
            "map_concat(m, map('z', CAST(null AS int))) AS m FROM {t})",
            _UPSERT,
        ),
        [
            (
                1,
                "false -1 -1.5 -2.5 -1.0001 a! 2021-12-26 2021-12-25 12:01:01.000001 01FF",
                "[1]",
                "{k -> 1, z -> null}",
            ),
            (
                2,
                "true -2 -2.5 -3.5 -2.0002 b! 2021-12-27 2021-12-26 12:01:01.000001 02FF",
                "[null, 2]",
                "{z -> null}",
            ),
        ],
        reads="id, concat_ws(' ', b, i, f, d, n, s, day, ts, hex(y)), CAST(l AS string), CAST(m AS string)",
        soon=True,
    ),
    "Hudi #11335: a decimal that does not fit is an error": Case(
        "id long, n decimal(5,2)",
        "(1, 1.5)",
        ["UPDATE {t} SET n = 999.995"],
        [(1, "1.50")],
        refused="CAST_OVERFLOW_IN_TABLE_INSERT",
        reads="id, CAST(n AS string)",
        settings={"spark.sql.ansi.enabled": "false"},
    ),
    "Delta #1483: a text for a number is refused, and not null": Case(
        _SMALL,
        "(1, 1)",
        merge(values("(1, 'x')", "id, v"), "WHEN MATCHED THEN UPDATE SET *"),
        [(1, 1)],
        refused="INCOMPATIBLE_DATA_FOR_TABLE|CAST_INVALID_INPUT",
        settings={"spark.sql.ansi.enabled": "false"},
    ),
    "QuestDB #4364: the empty text, the text NULL, and null": Case(
        "id long, s string",
        "(1, 'a'), (2, ''), (3, null), (4, 'NULL')",
        [
            "UPDATE {t} SET s = '' WHERE id = 1",
            "UPDATE {t} SET s = 'NULL' WHERE s IS NULL",
            "UPDATE {t} SET s = null WHERE id = 4",
            "DELETE FROM {t} WHERE s = ''",
            "INSERT INTO {t} VALUES (5, '  x ')",
            "UPDATE {t} SET s = concat(s, ' ') WHERE s = '  x '",
        ],
        [(3, "NULL"), (4, None), (5, "  x  ")],
    ),
    "ClickHouse #101665: an UPDATE that puts rows of a file in several partitions": Case(
        "id long, day string",
        "(1, 'a'), (2, 'a'), (3, 'a')",
        [
            "UPDATE {t} SET day = CASE id WHEN 1 THEN 'x/y' WHEN 2 THEN 'z=%20 ä' ELSE day END",
            "UPDATE {t} SET day = day",
        ],
        [(1, "x/y"), (2, "z=%20 ä"), (3, "a")],
        partition=("day",),
        soon=True,
    ),
    "Hudi #19610: a MERGE that inserts and moves by a partition column of the source": Case(
        "id long, name string, region string",
        "(1, 'a', 'eu'), (2, 'b', null)",
        merge(
            values("(1, 'a2', 'us'), (2, 'b2', 'eu'), (3, 'c', null)", "id, name, r"),
            "WHEN MATCHED THEN UPDATE SET name = s.name, region = s.r "
            "WHEN NOT MATCHED THEN INSERT (id, name, region) VALUES (s.id, s.name, s.r)",
        ),
        [(1, "a2", "us"), (2, "b2", "eu"), (3, "c", None)],
        partition=("region",),
    ),
    "Delta #420: a partition of time, written in another zone, is that of the same instant": Case(
        "id long, at timestamp, v int",
        "(1, timestamp '2025-03-30 01:30:00+00:00', 1), (2, timestamp '1890-01-01 00:00:00+00:00', 2)",
        ["UPDATE {t} SET v = v + 10", "UPDATE {t} SET at = at + INTERVAL 1 HOUR WHERE id = 1"],
        [(1, "2025-03-30 04:30:00", 11), (2, "1890-01-01 00:53:28", 12)],
        key="id,at",
        partition=("at",),
        reads="id, CAST(at AS string), v",
        settings={"spark.sql.session.timeZone": "Europe/Berlin"},
        soon=True,
    ),
    "delta-rs #2851: rows that Arrow has as large texts": Case(
        "id long, s string, day string",
        "(1, 'a', 'x'), (2, 'b', 'x')",
        [
            "UPDATE {t} SET s = concat(s, s), day = CASE id WHEN 1 THEN 'y' ELSE day END",
            "DELETE FROM {t} WHERE id = 2",
        ],
        [(1, "aa", "y")],
        partition=("day",),
        settings={"spark.sql.execution.arrow.useLargeVarTypes": "true"},
        soon=True,
    ),
    "Delta #1279: a null in a column that is not nullable is an error": Case(
        "id long, v int not null",
        "(1, 1), (2, 2)",
        merge(values("(1, 5), (2, null)", "id, v"), _UPSERT),
        [(1, 1), (2, 2)],
        refused="NULL",
    ),
    "Hudi #8138: an UPDATE of a key to null is refused": Case(
        _SMALL, "(1, 1)", ["UPDATE {t} SET id = CAST(null AS long)"], [(1, 1)], refused="record key"
    ),
}

ALL: dict[str, Case] = MATCHING | NAMES | CONDITIONS | VALUES
