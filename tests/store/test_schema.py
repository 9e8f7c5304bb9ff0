from __future__ import annotations

import importlib
from pathlib import Path

import psycopg
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine

import chronolake_migrations
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.store.postgres import migrations, schema
from chronolake_metastore.store.postgres.migrations import Migrated


def test_sqlalchemy_sees_the_columns_that_the_migrations_made(dsn: str) -> None:
    known = {table.name for table in schema.metadata.tables.values()}

    def wanted(name: str | None, kind: str, _: object) -> bool:
        return (kind, name) == ("schema", schema.SCHEMA) or name in known or kind == "column"

    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"include_schemas": True, "include_name": wanted, "compare_server_default": False}
        )
        differences = compare_metadata(context, schema.metadata)
    engine.dispose()
    # The differences of one column are a list of their own.
    flat = [
        difference for entry in differences for difference in (entry if isinstance(entry, list) else [entry])
    ]
    assert [difference for difference in flat if "comment" not in difference[0]] == []


def test_an_instant_has_a_field_for_each_of_its_columns() -> None:
    columns = {column.name for column in schema.instant.columns}
    assert columns == {"table_id", *Instant.__struct_fields__}


def test_the_last_migration_is_the_one_that_the_server_knows(empty_database: str) -> None:
    assert migrations.upgrade(empty_database) == Migrated(None, schema.REVISION, [])
    assert migrations.upgrade(empty_database) == Migrated(schema.REVISION, schema.REVISION, [])


def test_every_constraint_has_a_name_of_ours(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            """
            SELECT con.conname, cls.relname
            FROM pg_constraint con JOIN pg_class cls ON cls.oid = con.conrelid
            JOIN pg_namespace nsp ON nsp.oid = cls.relnamespace
            WHERE nsp.nspname = 'chronolake' AND con.contype <> 'n' AND cls.relname <> 'alembic_version'
                -- A partition has the checks of its table, with their names.
                AND (con.contype <> 'c' OR con.conislocal)
            """
        ).fetchall()
    assert rows
    for constraint, table in rows:
        assert constraint.startswith(f"{table}_")
        assert not constraint.endswith(("_pkey", "_key", "_check", "_fkey"))


def test_every_text_column_is_in_the_order_of_its_bytes(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            """
            SELECT format('%I.%I', cls.relname, att.attname)
            FROM pg_attribute att
            JOIN pg_class cls ON cls.oid = att.attrelid
            WHERE cls.relnamespace = 'chronolake'::regnamespace
                AND cls.relkind IN ('r', 'p')
                AND cls.relname <> 'alembic_version'
                AND att.attcollation NOT IN (0, (SELECT oid FROM pg_collation WHERE collname = 'C'))
            """
        ).fetchall()
    assert rows == []


def test_each_partition_has_its_own_keys_without_the_era(dsn: str) -> None:
    keys = """
        SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE conrelid::regclass::text ~ 'outcome' AND contype IN ('p', 'u') ORDER BY 1
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT chronolake.begin_era(2)")
        assert connection.execute(keys).fetchall() == [
            (f"outcome_{era}_{name}", definition)
            for era in (1, 2)
            for name, definition in (
                ("chain_unique", "UNIQUE (chain_id, number)"),
                ("request_unique", "PRIMARY KEY (request_id)"),
            )
        ]


def test_each_script_of_the_baseline_runs() -> None:
    [folder] = chronolake_migrations.__path__
    baseline = Path(folder, "baseline")
    scripts = sorted(path.relative_to(baseline).with_suffix("").as_posix() for path in baseline.rglob("*.sql"))
    revision = importlib.import_module("chronolake_migrations.versions.0065_baseline")
    assert sorted(revision.OBJECTS) == scripts
