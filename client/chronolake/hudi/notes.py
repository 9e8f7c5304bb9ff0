"""The differences of an adopted table from Hudi's own view, for its operator. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chronolake.hudi import logs
from chronolake.hudi.archived_instants import DETAILED_MAX
from chronolake.hudi.keeping import Kept
from chronolake.hudi.stored import StoredInstant, StoredTable
from chronolake_hudi.timeline_files import Layout
from chronolake_model.adoption import ADOPTED_INSTANTS_MAX, LEFT_OUT_CHARS_MAX, LEFT_OUT_MAX
from chronolake_model.publication import PUBLISH_PROPERTY
from chronolake_model.vocabulary import Action


def of_archive(table: StoredTable, *, archived: Sequence[str], known: int, times_only: int) -> Iterator[str]:
    """The notes on the archived instants that come in.

    ``archived`` are the requested times of those that come in by their files, ``known`` is the number of those
    with what they wrote, ``times_only`` of those without.
    """
    if known:
        yield f"{known} instant(s) of Hudi's archived timeline come in, with the files of them that exist"
    if times_only:
        yield (
            f"{times_only} instant(s) of Hudi's archived timeline come in with their times and actions only: "
            "none of their files exists, and what they wrote is not stated, or "
            f"{DETAILED_MAX:,} others are later"
        )
    if archived:
        unknown = sum(time not in table.archived for time in archived)
        yield (
            f"{len(archived)} archived instant(s) whose files are live come in at the times in the "
            f"names of the files; {unknown} of them with the next free millisecond as completion time"
        )


def left_out_of_archive(table: StoredTable, too_old: Sequence[StoredInstant]) -> list[str]:
    """The archived instants that do not come in, in words. For ``too_old`` ones the request has no room."""
    left_out = list(_left_out_of_archive(table, too_old))
    kept = left_out if len(left_out) <= LEFT_OUT_MAX else left_out[: LEFT_OUT_MAX - 1]
    more = [f"{len(left_out) - len(kept)} more files or instants cannot be read"] if kept != left_out else []
    return [text[:LEFT_OUT_CHARS_MAX] for text in (*kept, *more)]


def _left_out_of_archive(table: StoredTable, too_old: Sequence[StoredInstant]) -> Iterator[str]:
    if too_old:
        yield (
            f"{len(too_old)} instant(s) of Hudi's archived timeline, up to {too_old[-1].requested_time}, do "
            f"not come in: a table is adopted with at most {ADOPTED_INSTANTS_MAX:,} instants"
        )
    if table.unread_history:
        yield (
            f"{table.unread_history} instant(s) of Hudi's archived timeline do not come in: their times are "
            "not 17 digits of a time"
        )
    for damage in table.damaged_history:
        yield f"left out, because Hudi's archived timeline is damaged: {damage}"


def of_adoption(
    table: StoredTable,
    *,
    kept: Kept,
    is_hidden: bool,
    left_out: Sequence[Action],
    left_over: Sequence[str],
    cleaned_before: str | None,
) -> Iterator[str]:
    """The notes of an adoption.

    ``kept`` says why record keys or partition paths are kept, ``is_hidden`` whether Hudi's readers cannot read
    the guarded table. ``left_out`` are the actions of completed instants that do not come in, ``left_over``
    the paths of files of no instant.
    """
    partitions = ", ".join(name.partition(":")[0] for name in table.config.partition_fields)
    if kept.reasons:
        yield (
            f"{'; '.join(kept.reasons)}. Chronolake keeps them as they are: the table is read, cleaned, "
            "published and released, and records are written to it by a writer of your own, or by Hudi after "
            "its release"
        )
    if is_hidden:
        yield (
            "Hudi's readers do not find the table until it is released: without its key generator, whose place "
            f"the guard against Hudi's writers takes, they would read other values of {partitions}. So "
            f"{PUBLISH_PROPERTY} is false, unless you give it"
        )
    if cleaned_before is not None:
        yield (
            f"the table is served as of {cleaned_before} and later: of the time before, Hudi has archived "
            "instants or cleaned files"
        )
    if table.layout is Layout.ONE:
        yield (
            f"table version {table.config.version.value} keeps no completion times: each instant completes in "
            "the first free millisecond after its requested time, so that as-of reads give what Hudi gave"
        )
    yield from logs.notes(table)
    if left_out:
        actions = sorted(set(map(str, left_out)))
        yield f"{len(left_out)} completed {', '.join(actions)} are left out, for they have no effect any more"
    timezone = table.config.timezone
    if timezone.upper() != "UTC":
        meant = "the local time of its machines" if timezone.upper() == "LOCAL" else timezone
        yield (
            f"hoodie.table.timeline.timezone is {timezone}: Hudi wrote the times of the instants in {meant}. "
            "Chronolake keeps their digits and reads them as UTC: for a state from before the adoption, give "
            "the time as it is in Hudi's timeline. New instants are in UTC"
        )
    if table.strays:
        yield (
            f"{len(table.strays)} file(s) in folders that are no partitions are not of the table, such as "
            f"{table.strays[0].path}: Hudi's readers do not see them, and they are not brought in; chronolake "
            "check names them as foreign until they are moved out of the table's folder"
        )
    if left_over:
        yield (
            f"{len(left_over)} left-over file(s) of no instant are not brought in, such as {left_over[0]}; "
            "chronolake orphans lists them"
        )
