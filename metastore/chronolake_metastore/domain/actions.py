"""The actions, and what each may do (docs/architecture.md#instants; Hudi: HoodieTimeline, table version 9)."""

from __future__ import annotations

from typing import Final

import msgspec

from chronolake_model.vocabulary import Action, Operation, TableType, Touch

_BOTH: Final = frozenset(TableType)
_COPY_ON_WRITE: Final = frozenset({TableType.COPY_ON_WRITE})
_MERGE_ON_READ: Final = frozenset({TableType.MERGE_ON_READ})


class Rules(msgspec.Struct, frozen=True):
    """The rules of an action.

    ``table_types`` are the types of tables on which it can begin: none for actions with a request of their own.
    ``completed_as`` is its name after completion. ``operation`` is the only allowed one, if there is only one.
    ``touches`` is how it may change file groups. An action that ``keeps_plan`` goes back to requested if its
    execution fails, and waits there without a lease. An action that ``needs_groups`` names its file groups in
    its plan.
    """

    completed_as: Action
    table_types: frozenset[TableType] = frozenset()
    operation: Operation | None = None
    touches: frozenset[Touch] = frozenset()
    keeps_plan: bool = False
    needs_groups: bool = False


RULES: Final = {
    Action.COMMIT: Rules(Action.COMMIT, _COPY_ON_WRITE, touches=frozenset({Touch.BASE})),
    Action.DELTACOMMIT: Rules(Action.DELTACOMMIT, _MERGE_ON_READ, touches=frozenset({Touch.BASE, Touch.LOG})),
    Action.REPLACECOMMIT: Rules(Action.REPLACECOMMIT, _BOTH, touches=frozenset(Touch)),
    Action.CLUSTERING: Rules(
        Action.REPLACECOMMIT,
        _BOTH,
        operation=Operation.CLUSTER,
        touches=frozenset(Touch),
        keeps_plan=True,
        needs_groups=True,
    ),
    Action.COMPACTION: Rules(
        Action.COMMIT,
        _MERGE_ON_READ,
        operation=Operation.COMPACT,
        touches=frozenset({Touch.BASE}),
        keeps_plan=True,
        needs_groups=True,
    ),
    Action.LOGCOMPACTION: Rules(
        Action.DELTACOMMIT,
        _MERGE_ON_READ,
        operation=Operation.LOG_COMPACT,
        touches=frozenset({Touch.LOG}),
        keeps_plan=True,
        needs_groups=True,
    ),
    Action.CLEAN: Rules(Action.CLEAN, _BOTH, keeps_plan=True),
    Action.INDEXING: Rules(Action.INDEXING, _BOTH, keeps_plan=True),
    Action.ROLLBACK: Rules(Action.ROLLBACK, keeps_plan=True),
    Action.SAVEPOINT: Rules(Action.SAVEPOINT),
    Action.RESTORE: Rules(Action.RESTORE),
}

WRITES: Final = frozenset(action for action, rules in RULES.items() if rules.touches)
"""The actions that change what a table holds (Hudi: the write timeline), by their names while they are pending.

Completed, they are commits, deltacommits and replacecommits.
"""
COMPLETED_WRITES: Final = frozenset(RULES[action].completed_as for action in WRITES)

_SERVICE_OPERATIONS: Final = {rules.operation: action for action, rules in RULES.items() if rules.operation}


SERVICE_OPERATIONS: Final = frozenset(_SERVICE_OPERATIONS)
WRITE_OPERATIONS: Final = frozenset(Operation) - SERVICE_OPERATIONS
"""The operations of writers."""


def begun_as(action: Action, operation: Operation) -> Action:
    """The action that began the instant, which may have another name after completion."""
    return _SERVICE_OPERATIONS.get(operation, action)


def supported(table_type: TableType) -> list[Action]:
    """The actions that can be begun on a table of this type, by name."""
    return sorted(action for action, rules in RULES.items() if table_type in rules.table_types)
