"""The properties of a table that state the policies of its services, with Hudi's names and meanings.

``../concepts/table-services.md`` of the docs says where a default is not Hudi's. The domain of the server makes
policies of them (``domain/policies.py``); executors read the names that plans repeat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from chronolake_model.file_sizes import BYTES_MAX

SERVICES_ENABLED: Final = "hoodie.table.services.enabled"
INSTANT_BYTES_MAX: Final = "services.instant-max-bytes"
PLAN_EXPIRES_SECONDS: Final = "services.plan-expires-seconds"
COMPACTION_INLINE: Final = "hoodie.compact.inline"
CLUSTERING_INLINE: Final = "hoodie.clustering.inline"
COMPACTION_TRIGGER: Final = "hoodie.compact.inline.trigger.strategy"
DELTA_COMMITS_MAX: Final = "hoodie.compact.inline.max.delta.commits"
DELTA_SECONDS_MAX: Final = "hoodie.compact.inline.max.delta.seconds"
COMPACTION_STRATEGY: Final = "hoodie.compaction.strategy"
LOG_SIZE_THRESHOLD: Final = "hoodie.compaction.logfile.size.threshold"
LOG_NUMBER_THRESHOLD: Final = "hoodie.compaction.logfile.num.threshold"
TARGET_IO: Final = "hoodie.compaction.target.io"
DAY_PARTITIONS: Final = "hoodie.compaction.daybased.target.partitions"
COMPACTION_REGEX: Final = "hoodie.compaction.partition.path.regex"
LOG_COMPACTION_ENABLED: Final = "hoodie.log.compaction.enable"
LOG_BLOCKS_THRESHOLD: Final = "hoodie.log.compaction.blocks.threshold"
CLUSTERING_ENABLED: Final = "hoodie.clustering.async.enabled"
CLUSTERING_COMMITS_MAX: Final = "hoodie.clustering.async.max.commits"
CLUSTERING_SMALL_FILE_LIMIT: Final = "hoodie.clustering.plan.strategy.small.file.limit"
CLUSTERING_TARGET_BYTES: Final = "hoodie.clustering.plan.strategy.target.file.max.bytes"
"""Bytes that an output file of a clustering should have at most. Plans repeat it in their details."""
CLUSTERING_GROUP_BYTES: Final = "hoodie.clustering.plan.strategy.max.bytes.per.group"
CLUSTERING_GROUPS_MAX: Final = "hoodie.clustering.plan.strategy.max.num.groups"
CLUSTERING_SORT_COLUMNS: Final = "hoodie.clustering.plan.strategy.sort.columns"
"""The columns that order the records of a clustering, with commas. Plans repeat it in their details."""
CLUSTERING_LAYOUT: Final = "hoodie.layout.optimize.strategy"
"""How the columns order the records: linear, zorder or hilbert. Plans repeat it in their details."""
CLUSTERING_FILTER: Final = "hoodie.clustering.plan.partition.filter.mode"
CLUSTERING_LOOKBACK: Final = "hoodie.clustering.plan.strategy.daybased.lookback.partitions"
CLUSTERING_SKIP: Final = "hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions"
CLUSTERING_BEGIN: Final = "hoodie.clustering.plan.strategy.cluster.begin.partition"
CLUSTERING_END: Final = "hoodie.clustering.plan.strategy.cluster.end.partition"
CLUSTERING_REGEX: Final = "hoodie.clustering.plan.strategy.partition.regex.pattern"
CLUSTERING_SELECTED: Final = "hoodie.clustering.plan.strategy.partition.selected"
CLEAN_ENABLED: Final = "hoodie.clean.automatic"
CLEAN_POLICY: Final = "hoodie.clean.policy"
CLEAN_COMMITS: Final = "hoodie.clean.commits.retained"
CLEAN_HOURS: Final = "hoodie.clean.hours.retained"
CLEAN_VERSIONS: Final = "hoodie.clean.fileversions.retained"
CLEAN_TRIGGER: Final = "hoodie.clean.trigger.strategy"
CLEAN_TRIGGER_COMMITS: Final = "hoodie.clean.trigger.max.commits"
EMPTY_CLEAN_HOURS: Final = "hoodie.write.empty.clean.interval.hours"
"""Hudi's default is -1, none: on append-only tables its incremental cleans and archival never begin."""

HUDI_PREFIX: Final = "hoodie."
FAMILIES: Final = (
    "hoodie.compact",
    "hoodie.log.compaction.",
    "hoodie.clustering.",
    "hoodie.clean",
    "hoodie.keep.",
)
"""The server refuses other names that begin with one of these: a misspelt policy would have no effect."""
STRATEGIES: Final = (
    "LogFileSizeBased",
    "LogFileNumBased",
    "BoundedIO",
    "DayBased",
    "BoundedPartitionAware",
    "UnBoundedPartitionAware",
    "PartitionRegexBased",
    "UnBounded",
)
"""The strategies of compaction. Hudi's classes are named ``<strategy>CompactionStrategy``."""
TRIGGERS: Final = (
    "NUM_COMMITS",
    "NUM_COMMITS_AFTER_LAST_REQUEST",
    "TIME_ELAPSED",
    "NUM_OR_TIME",
    "NUM_AND_TIME",
)
LAYOUTS: Final = ("linear", "zorder", "hilbert")
CURVE_COLUMNS_MAX: Final = 16
"""Columns of zorder and hilbert: with more of them, each would have less than four bits."""
FILTERS: Final = ("NONE", "RECENT_DAYS", "SELECTED_PARTITIONS", "DAY_ROLLING")
CLEAN_POLICIES: Final = ("KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_FILE_VERSIONS")
_COUNT_MAX: Final = 1_000_000
_SECONDS_MAX: Final = 366 * 86_400
_REGEX_MAX: Final = 200
_BY_LETTERS: Final = {name.lower(): name for name in STRATEGIES}


class ServiceProperty(msgspec.Struct, frozen=True):
    """A property of a policy; ``allowed`` says in words which values it ``accepts``.

    ``default`` is a value, or says in words where the default comes from.
    """

    default: str
    allowed: str
    accepts: Callable[[str], bool]
    meaning: str


def strategy_of(text: str) -> str | None:
    """The strategy of compaction that a name, or Hudi's class with or without its package, stands for."""
    name = text.strip().rpartition(".")[2].lower().removesuffix("compactionstrategy")
    return _BY_LETTERS.get(name)


def listed(text: str) -> list[str]:
    """The entries of a value with commas, without blanks around them."""
    return [entry for part in text.split(",") if (entry := part.strip())]


def is_regex(text: str) -> bool:
    """Whether Hudi and the server's database read this regular expression alike, and match it in linear time.

    References to groups and looking around are refused.
    """
    if not text or len(text) > _REGEX_MAX or re.search(r"\(\?(?!:)|\\[1-9AbBZzGQEkpPxucC]|\\$", text):
        return False
    try:
        re.compile(text)
    except (re.error, OverflowError):
        return False
    return True


def _flag(default: str, meaning: str) -> ServiceProperty:
    return ServiceProperty(default, "true or false", {"true", "false"}.__contains__, meaning)


def _number(
    default: str, what: str, meaning: str, *, least: int = 0, most: int = _COUNT_MAX
) -> ServiceProperty:
    def is_number(text: str) -> bool:
        return re.fullmatch(r"[0-9]{1,13}", text) is not None and least <= int(text) <= most

    return ServiceProperty(default, f"{what}, {least} to {most}", is_number, meaning)


def _bytes(default: str, meaning: str, *, least: int = 1) -> ServiceProperty:
    return _number(default, "a number of bytes", meaning, least=least, most=BYTES_MAX)


def _choice(default: str, meaning: str, choices: tuple[str, ...]) -> ServiceProperty:
    known = {choice.lower() for choice in choices}
    return ServiceProperty(default, " or ".join(choices), lambda text: text.lower() in known, meaning)


def _regex(meaning: str) -> ServiceProperty:
    allowed = f"a regular expression of {_REGEX_MAX} characters at most, without references and looking around"
    return ServiceProperty("", allowed, is_regex, meaning)


def _text(meaning: str, allowed: str) -> ServiceProperty:
    return ServiceProperty("", allowed, lambda text: bool(listed(text)) and "\0" not in text, meaning)


_COMMITS: Final = "a number of commits"
_PARTITIONS: Final = "a number of partitions"
SERVICE_PROPERTIES: Final[Mapping[str, ServiceProperty]] = {
    SERVICES_ENABLED: _flag("true", "Whether the server plans services when it is asked"),
    INSTANT_BYTES_MAX: _bytes(str(10 * 2**30), "The input of one planned compaction; a round plans several"),
    PLAN_EXPIRES_SECONDS: _number(
        "3600",
        "a number of seconds",
        "A plan of this age that no executor has is rolled back, which frees its file groups",
        least=1,
        most=_SECONDS_MAX,
    ),
    COMPACTION_INLINE: _flag(
        "false",
        "Whether each write through Spark then runs the compactions, log compactions and cleans that are due",
    ),
    CLUSTERING_INLINE: _flag(
        "false", "Whether each write through Spark then runs the clusterings and cleans that are due"
    ),
    COMPACTION_TRIGGER: _choice("NUM_COMMITS", "When compaction is planned", TRIGGERS),
    DELTA_COMMITS_MAX: _number("5", _COMMITS, "Delta commits after which compaction is planned", least=1),
    DELTA_SECONDS_MAX: _number(
        "3600",
        "a number of seconds",
        "The age of the first delta commit after which compaction is planned, by the triggers of time",
        least=1,
        most=_SECONDS_MAX,
    ),
    COMPACTION_STRATEGY: ServiceProperty(
        "LogFileSizeBased",
        f"one or several, with commas, of {', '.join(STRATEGIES)}, or Hudi's classes of these names",
        lambda text: bool(listed(text)) and all(strategy_of(name) for name in listed(text)),
        "Which file groups a round of compaction takes, and in which order; several are applied in turn",
    ),
    LOG_SIZE_THRESHOLD: _bytes(
        "0", "Bytes of log files from which LogFileSizeBased takes a file group", least=0
    ),
    LOG_NUMBER_THRESHOLD: _number("0", "a number of files", "Log files from which LogFileNumBased takes one"),
    TARGET_IO: _number(
        "512000", "a number of MB", "What one round of compaction reads and writes at most", least=1, most=2**31
    ),
    DAY_PARTITIONS: _number("10", _PARTITIONS, "Days that DayBased and the PartitionAware ones take", least=1),
    COMPACTION_REGEX: _regex("The partition paths that PartitionRegexBased takes, whole"),
    LOG_COMPACTION_ENABLED: _flag(
        "false", "Whether file groups that a round does not compact have their log files merged into one"
    ),
    LOG_BLOCKS_THRESHOLD: _number(
        "5", "a number of log files", "Delta commits, and log files of a file group, from which it is", least=2
    ),
    CLUSTERING_ENABLED: _flag("true", "Whether clustering is planned. Tables with a bucket index have none"),
    CLUSTERING_COMMITS_MAX: _number("4", _COMMITS, "Commits after which clustering is planned", least=1),
    CLUSTERING_SMALL_FILE_LIMIT: _bytes(
        "that of files.small-file-limit", "Base files with fewer bytes are clustered", least=0
    ),
    CLUSTERING_TARGET_BYTES: _bytes("that of files.max-file-size", "Bytes of the files that clustering writes"),
    CLUSTERING_GROUP_BYTES: _bytes(str(2 * 2**30), "The input of one clustering"),
    CLUSTERING_GROUPS_MAX: _number(
        "30", "a number of clusterings", "Clusterings of one round", least=1, most=1_000
    ),
    CLUSTERING_SORT_COLUMNS: _text("Columns that order the records", "names of columns, with commas"),
    CLUSTERING_LAYOUT: _choice("linear", "How several columns order the records", LAYOUTS),
    CLUSTERING_FILTER: _choice("NONE", "Which partitions are clustered", FILTERS),
    CLUSTERING_LOOKBACK: _number("2", _PARTITIONS, "Latest partitions that RECENT_DAYS takes", least=1),
    CLUSTERING_SKIP: _number("0", _PARTITIONS, "Latest partitions that RECENT_DAYS leaves out"),
    CLUSTERING_BEGIN: _text("The first partition path of SELECTED_PARTITIONS", "a partition path"),
    CLUSTERING_END: _text("The last partition path of SELECTED_PARTITIONS", "a partition path"),
    CLUSTERING_REGEX: _regex("Only partitions whose whole path matches are clustered"),
    CLUSTERING_SELECTED: _text("Only these partitions are clustered", "partition paths, with commas"),
    CLEAN_ENABLED: _flag("true", "Whether cleans are planned with the other services"),
    CLEAN_POLICY: _choice(
        "that of which a number is set, or KEEP_LATEST_COMMITS", "What a clean keeps", CLEAN_POLICIES
    ),
    CLEAN_COMMITS: _number("10", _COMMITS, "Commits whose files KEEP_LATEST_COMMITS keeps", least=1),
    CLEAN_HOURS: _number("24", "a number of hours", "Hours whose files KEEP_LATEST_BY_HOURS keeps", least=1),
    CLEAN_VERSIONS: _number(
        "3", "a number of slices", "File slices of each group that KEEP_LATEST_FILE_VERSIONS keeps", least=1
    ),
    CLEAN_TRIGGER: _choice("NUM_COMMITS", "When a clean is planned", ("NUM_COMMITS",)),
    CLEAN_TRIGGER_COMMITS: _number("1", _COMMITS, "Commits after which a clean is planned", least=1),
    EMPTY_CLEAN_HOURS: ServiceProperty(
        "24",
        "a number of hours, or -1 for none",
        lambda text: re.fullmatch(r"-1|[0-9]{1,6}", text) is not None,
        "How many hours after the last clean there may be one without files, so that the "
        "[earliest commit to retain](../concepts/cleaning.md#the-earliest-commit-to-retain) moves",
    ),
}
"""All of them by name."""


def value_of(properties: Mapping[str, str], name: str) -> str:
    """The value of a property, or its default."""
    return properties.get(name, SERVICE_PROPERTIES[name].default)
