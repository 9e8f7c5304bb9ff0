"""Commands on a table itself: create, drop, change the schema."""

from __future__ import annotations

from hypothesis import strategies as st

from chronolake_metastore.domain import schemas, tables
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.properties import YIELDS_PROPERTY
from chronolake_metastore.domain.results import AnyResult, SchemaResult
from chronolake_model import tables as wire_tables
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.service_properties import EMPTY_CLEAN_HOURS
from chronolake_model.vocabulary import Yields
from tests.model_of_schemas import CHANGES, Column, Columns
from tests.store.command_strategies import instants
from tests.store.command_strategies.draws import BUCKETS, KINDS, DrawnCommand, Draws, missing
from tests.store.model import Timeline
from tests.store.model_of_instants import Refusals


def create(timelines: dict[str, Timeline], name: str, now: int = 0) -> DrawnCommand:
    """Create a table. It takes over the folder of the dropped table of its name, if there was one."""
    kind = KINDS[name]

    def apply(_: AnyResult) -> None:
        columns = (Column(1, "id", "bigint", nullable=True), Column(2, "name", "tinyint", nullable=False))
        timelines[name] = Timeline(
            kind.type, kind.yields is Yields.WRITER, Columns(columns, frozenset({"id"}), ids_given=2), now=now
        )

    return DrawnCommand(
        tables.CreateTable(
            NewDefinition(
                name=name,
                base_path=f"/lake/{name}",
                schema=[
                    wire_tables.NewField("id", "bigint"),
                    wire_tables.NewField("name", "tinyint", nullable=False),
                ],
                record_key_fields=["id"],
                type=kind.type,
                index=wire_tables.NewBucketIndex(buckets=BUCKETS),
                tick=kind.tick,
                # The model has no cleans without files: test_earliest_commit_to_retain.py has them.
                properties={YIELDS_PROPERTY: kind.yields, EMPTY_CLEAN_HOURS: "-1"},
                reuse_base_path=True,
            )
        ),
        lambda: {Code.TABLE_EXISTS: None} if name in timelines else {},
        apply,
    )


def drop_and_create(draws: Draws, name: str) -> list[DrawnCommand]:
    """Drop a table and create it again; a late heartbeat for an instant of the old table finds nothing."""
    drop = DrawnCommand(
        tables.DropTable(name),
        lambda: missing(draws.timelines, name, None),
        lambda _: draws.timelines.__delitem__(name),
    )
    late = instants.renew(draws, name) if draws.timelines[name].instants else []
    is_between = draws.data.draw(st.booleans())
    created = create(draws.timelines, name)
    return [drop, *late, created] if is_between else [drop, created, *late]


def change_schema(draws: Draws, name: str) -> list[DrawnCommand]:
    """Change columns of a table, usually of the version that it has."""
    changes = draws.data.draw(CHANGES)
    expected = None if draws.usually() else draws.data.draw(st.integers(1, 3))

    def refusals(timeline: Timeline) -> Refusals:
        if expected not in (None, timeline.schema.version):
            return {Code.SCHEMA_CHANGED: None}
        return {} if timeline.schema.after(changes) else {Code.INCOMPATIBLE_SCHEMA: None}

    def apply(result: AnyResult) -> None:
        timeline = draws.timelines[name]
        changed = timeline.schema.after(changes)
        assert changed is not None
        assert isinstance(result, SchemaResult)
        assert result.schema.schema_version == changed.version
        timeline.schema = changed

    return [draws.command(name, None, schemas.ChangeSchema(name, changes, expected), refusals, apply)]
