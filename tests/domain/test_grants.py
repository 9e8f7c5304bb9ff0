"""Grants: how many roles a subject may have."""

from __future__ import annotations

import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain import grants
from chronolake_metastore.domain.grants import GrantRole, StoredGrant
from chronolake_model.roles import GRANTS_PER_NAMESPACE_MAX, Role
from chronolake_model.times import Micros


def test_an_admin_of_a_namespace_does_not_use_up_the_roles_of_a_subject() -> None:
    held = [
        StoredGrant(
            subject="token:abcdefghij",
            role=Role.READER,
            pattern=f"own.t{number}*",
            granted_at=Micros(number),
            granted_by="token:klmnopqrst",
        )
        for number in range(GRANTS_PER_NAMESPACE_MAX)
    ]

    with pytest.raises(errors.InvalidRequest, match="100 roles within 'own'"):
        grants.grant(held, GrantRole("token:abcdefghij", Role.READER, "own.more_*"), None)
    assert grants.grant(held, GrantRole("token:abcdefghij", Role.READER, "other"), None) is not None
