"""Retries over a network that loses requests and answers: each command happens once (promise 4)."""

from __future__ import annotations

import pytest

import chronolake
from chronolake import State, _progress, errors
from tests.client.gateway import Fault, Gateway
from tests.client.test_writes import stat_of

TROUBLE = [Fault.LOSE_ANSWER, Fault.BAD_GATEWAY, Fault.LOSE_REQUEST, Fault.BUSY, Fault.LOSE_ANSWER]


def test_a_begin_whose_answers_are_lost_begins_once(troubled: chronolake.Table, gateway: Gateway) -> None:
    gateway.faults.extend(TROUBLE)

    write = troubled.begin()

    assert [instant.requested_time for instant in troubled.instants()] == [write.requested_time]
    assert len(gateway.keys) == len(TROUBLE) + 1
    assert len(set(gateway.keys)) == 1


def test_a_complete_whose_answers_are_lost_gets_the_first_answer(
    troubled: chronolake.Table, gateway: Gateway
) -> None:
    write = troubled.begin()
    gateway.faults.extend(TROUBLE)

    instant = write.complete([stat_of(write)])

    assert instant.state is State.COMPLETED
    assert troubled.instant(write.requested_time) == instant
    assert len(set(gateway.keys)) == 2


def test_a_complete_that_was_given_up_may_be_repeated_for_its_outcome(
    table: chronolake.Table, gateway: Gateway
) -> None:
    with chronolake.connect(gateway.url, retry_seconds=0) as impatient:
        write = impatient.table(table.name).begin()
        gateway.faults.append(Fault.LOSE_ANSWER)

        with pytest.raises(errors.ConnectionFailed):
            write.complete([stat_of(write)])
        instant = write.complete([stat_of(write)])

    assert instant.state is State.COMPLETED
    assert gateway.keys[1] == gateway.keys[2]


def test_a_complete_that_is_repeated_stages_nothing_twice(
    table: chronolake.Table, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_progress, "STAGED_FROM", 1)
    monkeypatch.setattr(_progress, "STAGED_AT_ONCE", 1)
    with chronolake.connect(gateway.url, retry_seconds=0) as impatient:
        write = impatient.table(table.name).begin()
        stats = [stat_of(write, bucket) for bucket in range(2)]
        gateway.faults.append(Fault.LOSE_ANSWER)
        with pytest.raises(errors.ConnectionFailed):
            write.complete(stats)

        instant = write.complete(stats)

    assert instant.summary is not None
    assert instant.summary.files == 2
    assert instant.version == 5, "a table, an instant, two parts, and the end of it"


def test_a_command_after_a_definite_answer_is_a_new_command(
    troubled: chronolake.Table, gateway: Gateway
) -> None:
    write = troubled.begin(inflight=False)
    with pytest.raises(errors.IllegalTransition):
        write.complete()
    write.inflight()

    assert write.complete().state is State.COMPLETED
    assert len(set(gateway.keys)) == 4


def test_a_refused_request_is_not_retried(troubled: chronolake.Table, gateway: Gateway) -> None:
    write = troubled.begin()
    write.complete()
    tried = len(gateway.keys)

    with pytest.raises(errors.IllegalTransition):
        write.rollback()

    assert len(gateway.keys) == tried + 1


def test_a_block_whose_outcome_is_unknown_is_not_rolled_back(table: chronolake.Table, gateway: Gateway) -> None:
    impatient = chronolake.connect(gateway.url, retry_seconds=0)

    with impatient, pytest.raises(errors.ConnectionFailed), impatient.table(table.name).begin() as write:
        write.add(stat_of(write))
        gateway.faults.append(Fault.LOSE_ANSWER)

    assert table.instant(write.requested_time).state is State.COMPLETED


def test_a_drop_whose_answer_is_lost_succeeds(
    troubled: chronolake.Table, gateway: Gateway, client: chronolake.Client
) -> None:
    with chronolake.connect(gateway.url) as patient:
        gateway.faults.append(Fault.LOSE_ANSWER)
        patient.drop_table(troubled.name)

    with pytest.raises(errors.TableNotFound):
        client.table(troubled.name)
