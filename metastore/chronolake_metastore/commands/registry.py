"""Every kind of command by its handler: the one list that a new command joins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from chronolake_metastore.commands.access_records import RecordDenialHandler, RecordVendingHandler
from chronolake_metastore.commands.adoption import AdoptTableHandler
from chronolake_metastore.commands.checkpoints import (
    AbortCheckpointHandler,
    CompleteCheckpointsHandler,
    ReportWriteMetadataHandler,
    RequestInstantHandler,
    RestartTaskHandler,
)
from chronolake_metastore.commands.cleans import PlanCleanHandler
from chronolake_metastore.commands.completing import (
    CompleteInstantHandler,
    CompleteTogetherHandler,
    StageWriteStatsHandler,
)
from chronolake_metastore.commands.deletions import RecordSweepHandler, ReportDeletionsHandler
from chronolake_metastore.commands.eras import RecordArchivedEraHandler
from chronolake_metastore.commands.grants import GrantRoleHandler, RevokeRoleHandler
from chronolake_metastore.commands.handler import Handler
from chronolake_metastore.commands.instants import (
    BeginInstantHandler,
    ReleaseSavepointHandler,
    RenewLeaseHandler,
    ReturnToRequestedHandler,
    TakeInflightHandler,
)
from chronolake_metastore.commands.locations import AllowLocationHandler, RevokeLocationHandler
from chronolake_metastore.commands.namespaces import CreateNamespaceHandler, DropNamespaceHandler
from chronolake_metastore.commands.publication import RecordHudiFilesHandler
from chronolake_metastore.commands.rollbacks import RollbackInstantHandler
from chronolake_metastore.commands.savepoints import CreateSavepointHandler, RestoreTableHandler
from chronolake_metastore.commands.services import PlanServicesHandler
from chronolake_metastore.commands.streams import (
    CloseStreamHandler,
    ExpireStreamHandler,
    OpenStreamHandler,
    RenewStreamHandler,
)
from chronolake_metastore.commands.tables import (
    AlterTableHandler,
    ChangeSchemaHandler,
    CreateTableHandler,
    DropTableHandler,
)
from chronolake_metastore.commands.tokens import CreateTokenHandler, RevokeTokenHandler, RotateTokenHandler
from chronolake_metastore.domain.commands import Command

AnyHandler: TypeAlias = Handler[Any, Any]

_ALL: Final[tuple[AnyHandler, ...]] = (
    CreateNamespaceHandler(),
    DropNamespaceHandler(),
    CreateTableHandler(),
    AdoptTableHandler(),
    AlterTableHandler(),
    DropTableHandler(),
    ChangeSchemaHandler(),
    BeginInstantHandler(),
    TakeInflightHandler(),
    ReturnToRequestedHandler(),
    RenewLeaseHandler(),
    StageWriteStatsHandler(),
    CompleteInstantHandler(),
    CompleteTogetherHandler(),
    RollbackInstantHandler(),
    CreateSavepointHandler(),
    ReleaseSavepointHandler(),
    RestoreTableHandler(),
    ReportDeletionsHandler(),
    RecordSweepHandler(),
    PlanCleanHandler(),
    PlanServicesHandler(),
    RecordHudiFilesHandler(),
    OpenStreamHandler(),
    RenewStreamHandler(),
    RequestInstantHandler(),
    ReportWriteMetadataHandler(),
    CompleteCheckpointsHandler(),
    AbortCheckpointHandler(),
    RestartTaskHandler(),
    CloseStreamHandler(),
    ExpireStreamHandler(),
    RecordArchivedEraHandler(),
    CreateTokenHandler(),
    RotateTokenHandler(),
    RevokeTokenHandler(),
    AllowLocationHandler(),
    RevokeLocationHandler(),
    GrantRoleHandler(),
    RevokeRoleHandler(),
    RecordDenialHandler(),
    RecordVendingHandler(),
)
HANDLERS: Final[Mapping[type[Command], AnyHandler]] = {handler.command: handler for handler in _ALL}
