"""The policies of table services, as the properties of a table state them (``service_properties``)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from chronolake_metastore.domain.cleans import Retention
from chronolake_metastore.domain.tables import Table
from chronolake_model import service_properties as names
from chronolake_model.file_sizes import FileSizes
from chronolake_model.service_properties import listed, strategy_of, value_of
from chronolake_model.times import MICROS_PER_SECOND

MB: Final = 2**20
HOURS_OF_DAY: Final = 24


class Trigger(enum.StrEnum):
    """When compaction is planned."""

    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_OR_TIME = "NUM_OR_TIME"
    NUM_AND_TIME = "NUM_AND_TIME"


class Strategy(enum.StrEnum):
    """Which file groups a round of compaction takes."""

    LOG_FILE_SIZE_BASED = "LogFileSizeBased"
    LOG_FILE_NUM_BASED = "LogFileNumBased"
    BOUNDED_IO = "BoundedIO"
    DAY_BASED = "DayBased"
    BOUNDED_PARTITION_AWARE = "BoundedPartitionAware"
    UNBOUNDED_PARTITION_AWARE = "UnBoundedPartitionAware"
    PARTITION_REGEX_BASED = "PartitionRegexBased"
    UNBOUNDED = "UnBounded"


class PartitionFilter(enum.StrEnum):
    """Which partitions are clustered."""

    NONE = "NONE"
    RECENT_DAYS = "RECENT_DAYS"
    SELECTED_PARTITIONS = "SELECTED_PARTITIONS"
    DAY_ROLLING = "DAY_ROLLING"


class CompactionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The policy of compaction, and of log compaction for the file groups that a round does not compact.

    ``base_bytes_estimate`` is the size of a base file that does not exist yet.
    """

    trigger: Trigger = Trigger.NUM_COMMITS
    delta_commits_max: int = 5
    delta_us_max: int = 3_600 * MICROS_PER_SECOND
    strategies: tuple[Strategy, ...] = (Strategy.LOG_FILE_SIZE_BASED,)
    size_threshold: int = 0
    number_threshold: int = 0
    target_io_bytes: int = 512_000 * MB
    day_partitions: int = 10
    partition_regex: str | None = None
    base_bytes_estimate: int = FileSizes().max_file_size
    merges_logs: bool = False
    log_threshold: int = 5


class ClusteringPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The policy of clustering. ``selected`` are the only partitions, if there are any."""

    is_on: bool = True
    commits_max: int = 4
    small_file_limit: int = FileSizes().small_file_limit
    target_bytes: int = FileSizes().max_file_size
    group_bytes_max: int = 2 * 2**30
    groups_max: int = 30
    sort_columns: tuple[str, ...] = ()
    layout: str = names.LAYOUTS[0]
    filter: PartitionFilter = PartitionFilter.NONE
    lookback: int = 2
    skip: int = 0
    begin: str | None = None
    end: str | None = None
    partition_regex: str | None = None
    selected: tuple[str, ...] = ()


class CleaningPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a clean is planned, and what it keeps."""

    is_on: bool = True
    commits_max: int = 1
    retention: Retention = Retention()


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of all services of a table."""

    are_on: bool = True
    instant_bytes_max: int = 10 * 2**30
    compaction: CompactionPolicy = CompactionPolicy()
    clustering: ClusteringPolicy = ClusteringPolicy()
    cleaning: CleaningPolicy = CleaningPolicy()

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Policies:
        """The policies that the properties of a table state, which the server has checked, or the defaults."""
        return cls(
            are_on=_is_on(properties, names.SERVICES_ENABLED),
            instant_bytes_max=_number(properties, names.INSTANT_BYTES_MAX),
            compaction=_compaction(properties),
            clustering=_clustering(properties),
            cleaning=CleaningPolicy(
                is_on=_is_on(properties, names.CLEAN_ENABLED),
                commits_max=_number(properties, names.CLEAN_TRIGGER_COMMITS),
                retention=retention_of(properties),
            ),
        )


def retention(table: Table, stated: Retention) -> Retention:
    """The retention of a clean: as its request states it, or else as the table does."""
    return retention_of(table.definition.properties) if stated == Retention() else stated


def retention_of(properties: Mapping[str, str]) -> Retention:
    """The retention of a table: by its policy, or by the one whose number alone is set."""
    stated = properties.get(names.CLEAN_POLICY, "").upper()
    with_number = [policy for policy, (name, _) in _NUMBERS.items() if name in properties]
    policy = stated or (with_number[0] if len(with_number) == 1 else names.CLEAN_POLICIES[0])
    name, field = _NUMBERS[policy]
    return Retention(**{field: _number(properties, name)})


def _compaction(properties: Mapping[str, str]) -> CompactionPolicy:
    strategies = map(strategy_of, listed(value_of(properties, names.COMPACTION_STRATEGY)))
    return CompactionPolicy(
        trigger=Trigger(value_of(properties, names.COMPACTION_TRIGGER).upper()),
        delta_commits_max=_number(properties, names.DELTA_COMMITS_MAX),
        delta_us_max=_number(properties, names.DELTA_SECONDS_MAX) * MICROS_PER_SECOND,
        strategies=tuple(Strategy(strategy) for strategy in strategies if strategy is not None),
        size_threshold=_number(properties, names.LOG_SIZE_THRESHOLD),
        number_threshold=_number(properties, names.LOG_NUMBER_THRESHOLD),
        target_io_bytes=_number(properties, names.TARGET_IO) * MB,
        day_partitions=_number(properties, names.DAY_PARTITIONS),
        partition_regex=properties.get(names.COMPACTION_REGEX),
        base_bytes_estimate=FileSizes.of(properties).max_file_size,
        merges_logs=_is_on(properties, names.LOG_COMPACTION_ENABLED),
        log_threshold=_number(properties, names.LOG_BLOCKS_THRESHOLD),
    )


def _clustering(properties: Mapping[str, str]) -> ClusteringPolicy:
    sizes = FileSizes.of(properties)
    return ClusteringPolicy(
        is_on=_is_on(properties, names.CLUSTERING_ENABLED),
        commits_max=_number(properties, names.CLUSTERING_COMMITS_MAX),
        small_file_limit=int(properties.get(names.CLUSTERING_SMALL_FILE_LIMIT, sizes.small_file_limit)),
        target_bytes=int(properties.get(names.CLUSTERING_TARGET_BYTES, sizes.max_file_size)),
        group_bytes_max=_number(properties, names.CLUSTERING_GROUP_BYTES),
        groups_max=_number(properties, names.CLUSTERING_GROUPS_MAX),
        sort_columns=tuple(listed(properties.get(names.CLUSTERING_SORT_COLUMNS, ""))),
        layout=value_of(properties, names.CLUSTERING_LAYOUT).lower(),
        filter=PartitionFilter(value_of(properties, names.CLUSTERING_FILTER).upper()),
        lookback=_number(properties, names.CLUSTERING_LOOKBACK),
        skip=_number(properties, names.CLUSTERING_SKIP),
        begin=properties.get(names.CLUSTERING_BEGIN),
        end=properties.get(names.CLUSTERING_END),
        partition_regex=properties.get(names.CLUSTERING_REGEX),
        selected=tuple(listed(properties.get(names.CLUSTERING_SELECTED, ""))),
    )


def _number(properties: Mapping[str, str], name: str) -> int:
    return int(value_of(properties, name))


def _is_on(properties: Mapping[str, str], name: str) -> bool:
    return value_of(properties, name) == "true"


_NUMBERS: Final = dict(
    zip(
        names.CLEAN_POLICIES,
        (
            (names.CLEAN_COMMITS, "commits"),
            (names.CLEAN_HOURS, "hours"),
            (names.CLEAN_VERSIONS, "versions"),
        ),
        strict=True,
    )
)
"""The property and the field of a retention that have the number of each policy of cleaning."""
