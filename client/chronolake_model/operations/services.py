"""Table services."""

from __future__ import annotations

from typing import Final

from chronolake_model.operations.declaring import command, read
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.roles import Right
from chronolake_model.services import (
    PlanServices,
    ServicesPage,
    ServicesPlanned,
    ServicesPreview,
    ServicesStatus,
)

_SERVICES: Final = "/v1/tables/{table}/services"

PREVIEW_SERVICES: Final = read(
    f"{_SERVICES}/preview",
    "Preview the plans of table services",
    Code.TABLE_NOT_FOUND,
    Code.OVERLOADED,
    tag="Table services",
    answer=ServicesPreview,
)
PLAN_SERVICES: Final = command(
    "POST",
    f"{_SERVICES}/plan",
    "Plan table services",
    Code.TABLE_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.INVALID_PLAN,
    tag="Table services",
    body=PlanServices,
    answer=ServicesPlanned,
    right=Right.MAINTAIN,
    creates=True,
)
GET_SERVICES: Final = read(
    _SERVICES,
    "Get the table services of a table",
    Code.TABLE_NOT_FOUND,
    tag="Table services",
    answer=ServicesStatus,
)
LIST_SERVICES: Final = read(
    "/v1/services",
    "List the table services of all tables",
    Code.INVALID_CURSOR,
    tag="Table services",
    answer=ServicesPage,
)
