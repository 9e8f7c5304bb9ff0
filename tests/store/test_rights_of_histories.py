"""Random grants, subjects and commands: what is decided is what an oracle of roles says, at each moment."""

from __future__ import annotations

import asyncio
import fnmatch
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import HealthCheck, given, settings, strategies as st

from chronolake_metastore import errors
from chronolake_metastore.commands import group
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.grants import GrantRole, RevokeRole
from chronolake_metastore.domain.instants import BeginInstant, CompleteInstant
from chronolake_metastore.domain.namespaces import CreateNamespace, DropNamespace
from chronolake_metastore.domain.results import TableResult
from chronolake_metastore.domain.subjects import SERVER, Subject
from chronolake_metastore.domain.tables import AlterTable, CreateTable, DropTable
from chronolake_metastore.domain.transactions import CompleteTogether
from chronolake_metastore.service import registry
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import grants as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session
from chronolake_model.roles import ROLES, Right, Role, scope_of
from chronolake_model.tables import NewField
from chronolake_model.times import Micros
from tests.examples import examples
from tests.store import tampering

NAMESPACES = ("a", "a_b", "ab")
TABLES = tuple(f"{namespace}.{table}" for namespace in NAMESPACES for table in ("t", "t1", "t_1"))
PATTERNS = ("*", *NAMESPACES, "a*", "a.*", "a.t*", "a_b.t_*", "ab.t1*", *TABLES)
SUBJECTS = ("token:aaaaaaaaaa", "token:bbbbbbbbbb", "oidc:corp:a b")
RIGHT_OF_ROLE = {
    Role.READER: "read",
    Role.WRITER: "write",
    Role.MAINTAINER: "maintain",
    Role.ADMIN: "define grant",
}
"""The rights that a role adds to those before it."""


def table(name: str) -> CreateTable:
    base_path = f"s3://lake/{name}/{next(_numbers)}"
    return CreateTable(NewDefinition(name, base_path, [NewField("id", "bigint")], ["id"]))


_numbers = itertools.count()
_names = st.sampled_from(TABLES)
_commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(GrantRole, st.sampled_from(SUBJECTS), st.sampled_from(ROLES), st.sampled_from(PATTERNS)),
    st.builds(GrantRole, st.sampled_from(SUBJECTS), st.sampled_from(ROLES), st.sampled_from(PATTERNS)),
    st.builds(RevokeRole, st.sampled_from(SUBJECTS), st.sampled_from(PATTERNS)),
    st.builds(table, _names),
    st.builds(AlterTable, _names, new_name=_names),
    st.builds(DropTable, _names),
    st.builds(BeginInstant, _names, st.just("w")),
    st.builds(DropNamespace, st.sampled_from(NAMESPACES)),
    st.lists(_names, min_size=2, max_size=2, unique=True).map(
        lambda names: CompleteTogether([CompleteInstant(name, Micros(1)) for name in names])
    ),
)
_steps = st.lists(
    st.lists(st.tuples(st.sampled_from((None, *SUBJECTS)), _commands), min_size=1, max_size=4),
    min_size=5,
    max_size=12,
)
"""Groups of commands; a command without a subject is the server's."""


@dataclass
class Oracle:
    """Roles by subject and pattern; those on a table by its id."""

    tables: dict[str, UUID] = field(default_factory=dict)
    roles: dict[tuple[str, str | UUID], Role] = field(default_factory=dict)

    def key(self, pattern: str) -> str | UUID:
        if "." in pattern and not pattern.endswith("*"):
            return self.tables[pattern]
        return pattern.removesuffix(".*")

    def may(self, subject: str, right: str, pattern: str) -> bool:
        return any(
            right in " ".join(RIGHT_OF_ROLE[lower] for lower in ROLES[: ROLES.index(role) + 1]).split()
            and self._covers(key, pattern)
            for (of, key), role in self.roles.items()
            if of == subject
        )

    def _covers(self, key: str | UUID, pattern: str) -> bool:
        if isinstance(key, UUID):
            return self.tables.get(pattern) == key
        # A name that stands for all that the pattern fits: what begins like it begins with all of it.
        named = pattern.removesuffix("*") if pattern.endswith("*") else pattern
        if "." not in pattern and not pattern.endswith("*"):
            named = f"{pattern}."
        glob = key if key.endswith("*") else f"{key}.*"
        return fnmatch.fnmatchcase(named, glob)

    def sees(self, subject: str, namespace: str) -> bool:
        """Whether a subject has a role on something that is, or could be, in a namespace."""
        start = f"{namespace}."
        for of, key in self.roles:
            if isinstance(key, UUID):
                seen = any(name.startswith(start) for name, table_id in self.tables.items() if table_id == key)
            elif not key.endswith("*"):
                seen = key == namespace
            else:
                beginning = key.removesuffix("*")
                seen = beginning.startswith(start) or start.startswith(beginning)
            if of == subject and seen:
                return True
        return False

    def expected(self, subject: str, command: Command) -> str:
        """``allowed``, ``forbidden`` or ``hidden``."""
        right = registry.COMMANDS[type(command)].value
        old, new = _named(command)
        for name in old:
            if self.may(subject, right, name):
                continue
            is_seen = self.may(subject, "read", name) if "." in name else self.sees(subject, name)
            return "forbidden" if is_seen else "hidden"
        return "allowed" if all(self.may(subject, right, name) for name in new) else "forbidden"

    def follow(self, command: Command, answer: Answer) -> None:
        """The effect of a command that was executed."""
        match command:
            case GrantRole():
                self.roles[command.subject, self.key(command.on)] = command.role
            case RevokeRole():
                self.roles.pop((command.subject, self.key(command.on)), None)
            case CreateTable():
                assert isinstance(answer.result, TableResult)
                self.tables[command.definition.name] = answer.result.table.table_id
            case AlterTable():
                assert command.new_name is not None
                self.tables[command.new_name] = self.tables.pop(command.name)
            case DropTable():
                dropped = self.tables.pop(command.name)
                self.roles = {key: role for key, role in self.roles.items() if key[1] != dropped}
            case _:
                pass


def _named(command: Command) -> tuple[Sequence[str], Sequence[str]]:
    """The names that must exist for a command, and those that need not."""
    match command:
        case GrantRole() | RevokeRole():
            is_table = "." in command.on and not command.on.endswith("*")
            return ([command.on], []) if is_table else ([], [command.on])
        case CreateTable():
            return [], [command.definition.name]
        case AlterTable():
            # A table that keeps its name needs the right once.
            return [command.name] if command.name != command.new_name else [], [command.new_name or ""]
        case CompleteTogether():
            return [member.table for member in command.members], []
        case BeginInstant():
            return [command.table], []
        case DropTable() | DropNamespace():
            return [command.name], []
        case _:
            raise AssertionError(command)


class Lake:
    """A metastore without a server, whose commands are checked against the oracle."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.oracle = Oracle()

    async def play(self, steps: Sequence[Sequence[tuple[str | None, Command]]]) -> None:
        database = Database(Settings(dsn=self.dsn))
        session = Session(database)
        try:
            await self._run(session, [(None, CreateNamespace(name)) for name in NAMESPACES])
            for step in steps:
                await self._run(session, step)
                await self._check_reads(database)
        finally:
            await session.close()
            await database.close()

    async def _run(self, session: Session, sent: Sequence[tuple[str | None, Command]]) -> None:
        tasks = []
        for subject, command in sent:
            of = SERVER if subject is None else Subject(subject)
            request = group.request_of(Context(of.name, f"request-{next(_numbers)}", subject=of), command)
            tasks.append(group.task_of(request, None if subject is None else registry.COMMANDS[type(command)]))
        answers = (await group.run_tasks(session, tasks, drift_max_us=0)).results
        for (subject, command), answer in zip(sent, answers, strict=True):
            if subject is not None:
                self._check(self.oracle.expected(subject, command), command, answer)
            if isinstance(answer, Answer):
                self.oracle.follow(command, answer)

    def _check(self, expected: str, command: Command, answer: group.Result) -> None:
        told = f"{expected}, {command}, {answer!r}"
        match expected:
            case "hidden":
                assert isinstance(answer, errors.TableNotFound | errors.NamespaceNotFound), told
            case "forbidden":
                assert isinstance(answer, errors.Forbidden), told
            case _:
                assert not isinstance(answer, errors.Forbidden), told
                if isinstance(answer, errors.TableNotFound):
                    assert answer.context["table"] not in self.oracle.tables, told

    async def _check_reads(self, database: Database) -> None:
        for subject in SUBJECTS:
            rights = await stored.get_rights(database, subject)
            for name in (*TABLES, *NAMESPACES):
                scope = scope_of(name)
                may = self.oracle.may(subject, "read", name)
                assert rights.may(Right.READ, scope) == may, (subject, name)
                if scope.is_table:
                    assert rights.may_read(name, self.oracle.tables.get(name)) == may
                else:
                    assert rights.sees_namespace(name) == self.oracle.sees(subject, name)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_steps)
def test_commands_are_decided_by_the_roles_of_their_moment(
    new_database: Callable[[], str], steps: Sequence[Sequence[tuple[str | None, Command]]]
) -> None:
    lake = Lake(new_database())
    asyncio.run(lake.play(steps))

    assert not any(tampering.rebuild(lake.dsn).repaired.values())
