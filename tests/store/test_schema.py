from __future__ import annotations

import psycopg
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine

from chronolake_metastore.domain.proof import Check
from chronolake_metastore.store import migrations, schema
from chronolake_metastore.store.migrations import Migrated
from tests.store import tampering
from tests.store.history import History


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
    # What differs in a column comes as a list of its own.
    flat = [one for found in differences for one in (found if isinstance(found, list) else [found])]
    assert [one for one in flat if "comment" not in one[0]] == []


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
            """
        ).fetchall()
    assert rows
    for constraint, table in rows:
        assert constraint.startswith(f"{table}_")
        assert not constraint.endswith(("_pkey", "_key", "_check", "_fkey"))


BEFORE_SCHEMA_VERSIONS = """
    UPDATE lake_table SET definition = definition - 'schema_version' - 'last_field_id'
        || jsonb_build_object('schema', (
            SELECT jsonb_agg(field - 'field_id') FROM jsonb_array_elements(definition -> 'schema') AS field
        ));
    DROP VIEW audit_schemas, audit_markers, audit_deletions;
    DROP FUNCTION refuse_late_marker;
    DROP TABLE marker, deleted_file, reader;
    DROP TABLE schema_version, metastore;
    DROP FUNCTION this_database;
    ALTER TABLE instant DROP COLUMN schema_version, DROP COLUMN unswept_since;
    ALTER TABLE write_stat DROP COLUMN column_stats;
    ALTER TABLE file DROP COLUMN column_stats, DROP COLUMN schema_version, DROP COLUMN cleaned_by;
    ALTER TABLE lake_table DROP COLUMN cleaned_before;
    UPDATE alembic_version SET version_num = '0005';
"""


def test_tables_of_before_schema_versions_are_as_a_replay_of_their_log_would_make_them(dsn: str) -> None:
    with History(dsn) as lake:
        lake.make_namespace("shop")
        lake.make_table("shop.orders")
        lake.make_table("shop.dropped")
        lake.drop_table("shop.dropped")
    tampering.forget_answer_chains(dsn)
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path TO chronolake")
        connection.execute(BEFORE_SCHEMA_VERSIONS)

    assert migrations.upgrade(dsn) == Migrated("0005", schema.REVISION, [])

    report = tampering.verify(dsn)
    assert (report.findings, report.not_compared) == ([], [])
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT DISTINCT schema_version, fields FROM chronolake.schema_version"
        ).fetchall()
    assert rows == [(1, [{"field_id": 1, "name": "id", "type": "bigint", "nullable": True}])]


def test_deletions_of_before_sweeps_are_due_as_a_replay_of_their_log_would_have_them(dsn: str) -> None:
    tampering.make(dsn)
    tampering.report_deletions(dsn)
    tampering.forget_answer_chains(dsn)
    due = "SELECT requested_time, unswept_since FROM chronolake.instant WHERE unswept_since IS NOT NULL"
    with psycopg.connect(dsn) as connection:
        known = connection.execute(due).fetchall()
        connection.execute("ALTER TABLE chronolake.instant DROP COLUMN unswept_since")
        connection.execute("DROP TABLE chronolake.metastore")
        connection.execute("DROP FUNCTION chronolake.this_database")
        connection.execute("UPDATE chronolake.alembic_version SET version_num = '0014'")

    assert migrations.upgrade(dsn) == Migrated("0014", schema.REVISION, [])

    assert tampering.verify(dsn).findings == []
    with psycopg.connect(dsn) as connection:
        assert connection.execute(due).fetchall() == known != []


CHAINED = "SELECT request_id, chain_id, number, hash FROM chronolake.outcome ORDER BY request_id"


def test_outcomes_of_before_their_chains_are_put_into_them_as_servers_would_have_done(dsn: str) -> None:
    tampering.make(dsn)
    tampering.refuse(dsn)
    tampering.refuse(dsn, "shop.orders", "shop.none")
    with psycopg.connect(dsn) as connection:
        chained = connection.execute(CHAINED).fetchall()
    tampering.forget_answer_chains(dsn)

    assert migrations.upgrade(dsn) == Migrated("0017", schema.REVISION, [])

    with psycopg.connect(dsn) as connection:
        assert connection.execute(CHAINED).fetchall() == chained
    tampering.stage(dsn)
    assert tampering.verify(dsn).findings == []
    tampering.tamper(dsn, "UPDATE refusal SET actor = 'mallory' WHERE table_name = 'shop.none'")
    assert [finding.check for finding in tampering.verify(dsn).findings] == [Check.OUTCOME]
