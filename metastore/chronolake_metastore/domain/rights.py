"""Rights of a subject, by its roles on tables and namespaces. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_model.roles import RIGHTS, Right, Role, Scope, scope_of


class HeldRole(msgspec.Struct, frozen=True):
    """A role that a subject has: on all names that begin with ``prefix``, or on one table.

    ``table`` is the present name of the table.
    """

    role: Role
    prefix: str | None = None
    table: str | None = None
    table_id: UUID | None = None

    def fits(self, scope: Scope) -> bool:
        """Whether it is a role on all names of a scope."""
        if self.prefix is not None:
            return scope.text.startswith(self.prefix)
        return scope.is_table and scope.text == self.table


class Rights(msgspec.Struct, frozen=True):
    """The roles of a subject. One that ``is_unlimited`` may do everything."""

    held: Sequence[HeldRole] = ()
    is_unlimited: bool = False

    def may(self, right: Right, scope: Scope) -> bool:
        """Whether the subject has a right on all names of a scope."""
        if self.is_unlimited:
            return True
        return any(right in RIGHTS[role.role] and role.fits(scope) for role in self.held)

    def may_read(self, table: str | None, table_id: UUID | None = None) -> bool:
        """Whether the subject may read a table: by its name, and by its id where that is known.

        The name of a role on a table may be another table's by now, its id never is.
        """
        return self.is_unlimited or any(
            table is not None and table.startswith(role.prefix)
            if role.prefix is not None
            else (
                role.table_id == table_id if table_id is not None else table is not None and role.table == table
            )
            for role in self.held
        )

    def sees_namespace(self, namespace: str) -> bool:
        """Whether the subject has a role on the namespace, or on a table that it has or may have."""
        start = f"{namespace}."
        return self.is_unlimited or any(
            start.startswith(role.prefix) or role.prefix.startswith(start)
            if role.prefix is not None
            else role.table is not None and role.table.startswith(start)
            for role in self.held
        )

    @property
    def sees_everything(self) -> bool:
        """Whether the subject may read all tables, and the log of the catalog."""
        return self.may(Right.READ, EVERYTHING)


EVERYTHING: Final = scope_of("*")
UNLIMITED: Final = Rights(is_unlimited=True)
NONE: Final = Rights()


class Needs(msgspec.Struct, frozen=True):
    """A right that a request needs on each of its scopes.

    ``new`` are scopes of names that need not exist: that the caller may not use one reveals nothing. ``beside``
    are scopes of names that the decision may concern too: it asks for the rights there itself.
    """

    right: Right
    scopes: Sequence[Scope]
    new: Sequence[Scope] = ()
    beside: Sequence[Scope] = ()


def scopes_of(names: Iterable[str]) -> list[Scope]:
    """The scopes of names of tables and namespaces; raises ``InvalidRequest``."""
    try:
        return [scope_of(name) for name in dict.fromkeys(names)]
    except ValueError as exc:
        raise errors.InvalidRequest(str(exc)) from exc


def check(rights: Rights, needs: Needs, subject: str, table_id: UUID | None = None) -> None:
    """Raise ``Forbidden`` unless a subject has the right, or ``NotFound`` for what it may not know.

    A namespace can be read by all who see something in it. A request that names nothing needs no role, but only
    the metastore itself may administer. ``table_id`` is the id that the request expects of its first table.
    """
    if rights.is_unlimited:
        return
    if needs.right is Right.ADMINISTER:
        raise errors.Forbidden(f"{subject} may not administer the metastore")
    for number, scope in enumerate(needs.scopes):
        if not rights.may(needs.right, scope) and not _is_seen(rights, needs.right, scope):
            raise _refusal(rights, needs, scope, subject, table_id if number == 0 else None)
    for scope in needs.new:
        if not rights.may(needs.right, scope):
            raise _forbidden(needs.right, scope, subject)


def checked_table(rights: Rights, needs: Needs, subject: str, table_id: UUID | None) -> UUID | None:
    """The id that the table of a request must have, after ``check``; ``table_id`` where it names several.

    Where only a role on a table itself opens a name, it opens that table: by now another one may have the name.
    """
    check(rights, needs, subject, table_id)
    of_role = _table_of_role(rights, needs.right, needs.scopes[0]) if len(needs.scopes) == 1 else None
    if of_role is None or of_role == table_id:
        return table_id
    if table_id is not None:
        raise _refusal(NONE, needs, needs.scopes[0], subject, table_id)
    return of_role


def _table_of_role(rights: Rights, right: Right, scope: Scope) -> UUID | None:
    """The table whose role opens a scope; None if a role on names does so, too."""
    opening = [role for role in rights.held if right in RIGHTS[role.role] and role.fits(scope)]
    is_by_name = rights.is_unlimited or any(role.prefix is not None for role in opening)
    return opening[0].table_id if opening and not is_by_name else None


def _refusal(
    rights: Rights, needs: Needs, scope: Scope, subject: str, table_id: UUID | None
) -> errors.TimelineError:
    forbidden = _forbidden(needs.right, scope, subject)
    if rights.may(Right.READ, scope) or _is_seen(rights, Right.READ, scope):
        return forbidden
    hidden: errors.NotFound
    if scope.is_table:
        # A writer with a role on the table itself follows its rename.
        held = (role.table for role in rights.held if table_id is not None and role.table_id == table_id)
        hidden = _unseen(errors.TableNotFound(scope.text, next(held, None), table_id=table_id))
    else:
        hidden = errors.NamespaceNotFound(scope.text.removesuffix("."))
    hidden.denial = forbidden
    return hidden


def _is_seen(rights: Rights, right: Right, scope: Scope) -> bool:
    """Whether a namespace is read in which the subject sees something."""
    return right is Right.READ and not scope.is_table and rights.sees_namespace(scope.text.removesuffix("."))


def _forbidden(right: Right, scope: Scope, subject: str) -> errors.Forbidden:
    role = next(role for role in Role if right in RIGHTS[role])
    return errors.Forbidden(
        f"{subject} lacks the right {right.value!r} on {scope.pattern!r}; ask an administrator for the role "
        f"{role.value!r} there",
        right=right.value,
        on=scope.pattern,
    )


def _unseen(exc: errors.TableNotFound) -> errors.TableNotFound:
    """The error for a caller that may lack a role on the table."""
    if exc.context.keys() == {"table"}:
        exc.detail += ", or ask an administrator for a role on it"
    return exc


def without_hidden(exc: errors.TimelineError, rights: Rights) -> errors.TimelineError:
    """The error without names of tables that the caller may not read.

    For the caller a missing table and a hidden one are the same: it may lack a role on either.
    """
    context = exc.context
    other = context.get("renamed_to") or context.get("other_table") or context.get("table")
    table_id = None if "table_id" not in context else UUID(context["table_id"])
    of_other = table_id if isinstance(exc, errors.TableNotFound) and "renamed_to" in context else None
    if rights.is_unlimited or other is None or rights.may_read(other, of_other):
        return exc
    match exc:
        case errors.TableNotFound() if exc.denial is None:
            exc = _unseen(errors.TableNotFound(context["table"], table_id=table_id))
        case errors.InstantNotFound() if "renamed_to" in context:
            exc = errors.InstantNotFound(context["table"], context["requested_time"])
        case errors.BasePathTaken():
            exc = errors.BasePathTaken(
                "the base path overlaps with that of another table; choose another base path",
                base_path=context["base_path"],
            )
        case errors.BasePathShared():
            exc = errors.BasePathShared(
                f"files of table {context['table']!r} are not deleted: its base path overlaps with that of "
                "another table; create it anew elsewhere",
                table=context["table"],
            )
        case errors.InvalidTable():
            exc = errors.InvalidTable(
                "a dropped table at this base path has files of a pending instant; adopt a copy of the table's "
                "files elsewhere, without those of this instant",
                requested_time=context.get("requested_time"),
            )
        case _:
            pass
    return exc
