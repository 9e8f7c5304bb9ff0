"""The options that all methods of a table have which write, for the instant of the write."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TypedDict, get_args

from chronolake.writing import choices
from chronolake.writing.choices import OnConflict, ServicesSwitch
from chronolake_model.markers import MarkersType


class CommitOptions(TypedDict, total=False):
    """The options of every write.

    ``extra_metadata`` is published with the instant. With ``on_conflict="retry"`` a write that lost a conflict
    is written again; the default is ``"fail"``.
    """

    extra_metadata: Mapping[str, str] | None
    on_conflict: OnConflict


class InstantOptions(CommitOptions, total=False):
    """The options of a write of files: ``markers`` overrides where the table keeps markers.

    ``services`` says whether the write, once it is complete, runs the table services that are due: ``on`` runs
    all, ``off`` none. Without it the table's properties ``hoodie.compact.inline`` and
    ``hoodie.clustering.inline`` decide. The others are as in ``CommitOptions``.
    """

    markers: MarkersType | None
    services: ServicesSwitch | None


def metadata_of(options: CommitOptions) -> dict[str, str]:
    """The extra metadata of an instant."""
    return dict(options.get("extra_metadata") or {})


def on_conflict_of(options: CommitOptions) -> OnConflict:
    """The reaction of the write if it loses a conflict."""
    return options.get("on_conflict", "fail")


def services_of(options: InstantOptions) -> ServicesSwitch | None:
    """The switch of the table services after the write; None if properties of the table decide."""
    return options.get("services")


def check(options: CommitOptions, known: type[CommitOptions] = InstantOptions) -> None:
    """Raise ``TypeError`` for an option that is none of ``known``, as Python does for an unknown argument.

    Raises ``ValueError`` for an unknown word.
    """
    names = inspect.get_annotations(known)
    if unknown := sorted(options.keys() - names.keys()):
        raise TypeError(f"a write has no option {', '.join(unknown)}; it has {', '.join(sorted(names))}")
    if (switch := options.get("services")) is not None:
        choices.word("services", switch, get_args(ServicesSwitch))
