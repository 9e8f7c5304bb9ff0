# Chronolake: `make demo` shows it, `make test` proves it; `make help` lists the rest.
# All needs only Python 3.11+ and make; everything else is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 4
STAMP := $(VENV)/.installed
# The blocking client is generated: git ignores it (docs/decisions/0035-one-client.md).
SYNC := client/chronolake/_sync/__init__.py
# The Java part of Spark's SQL catalog. Without a JDK it is not built, and its tests are skipped.
JAR := spark_integration/chronolake_spark/jars/chronolake-spark.jar
READY := $(STAMP) $(SYNC) $(if $(shell command -v javac),$(JAR))
# Else each process of the tests compiles all modules again, and each worker rewrites the assertions of all tests.
export PYTHONDONTWRITEBYTECODE :=

# Spark wants Java 17 or 21. Where there is none, a Java runtime that ships as a wheel joins the environment.
JAVA_FOUND := $(shell "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | grep -Eq 'version "(17|21)\.' && echo yes)
comma := ,
EXTRAS := oidc,server,storage,spark-local$(if $(JAVA_FOUND),,$(comma)jdk)

.DEFAULT_GOAL := help
.PHONY: help install jar check-jar demo test suite test-long test-hudi test-flink test-clients test-poolers check sync format docs bench-timeline bench-against bench-slices bench-services bench-markers bench-proof bench-archive bench-followers bench-publishing bench-rows bench-iceberg bench-spark bench-hudi bench-delta bench-streaming soak walks budgets fuzz clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

install: $(READY) ## make the environment in .venv

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Chronolake needs Python 3.11 or newer; say which: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Installing PostgreSQL, PySpark and the rest into $(VENV): about 1.5 GB, which takes some minutes."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python tools/install.py --constraint constraints.txt --upgrade pip
	@$(BIN)/python tools/install.py --constraint constraints.txt \
	  --editable '.[$(EXTRAS)]' --group dev
	@touch $@

$(SYNC): tools/async_to_sync.py $(wildcard client/chronolake/_async/*.py) | $(STAMP)
	@$(BIN)/python tools/async_to_sync.py
	@touch $@

$(JAR): tools/make_jar.py $(wildcard spark_integration/java/chronolake/spark/*.java) | $(STAMP)
	@$(BIN)/python tools/make_jar.py --force

jar: $(STAMP) ## compile the Java part of Spark's SQL catalog (a JDK 17 or newer; nothing else)
	@$(BIN)/python tools/make_jar.py --force

# 0.5 GB for each release, once, into .pyspark.
check-jar: $(READY) ## check that the jar fits the other releases of PySpark that are supported
	@$(BIN)/python tools/check_jar.py $(or $(PYSPARK),4.1.1)

demo: $(READY) ## start a server, load a table through Spark, show its timeline, compact it, read it with hudi-rs (DATA=<folder> for your own files)
	@$(BIN)/python examples/demo.py $(if $(DATA),--data '$(DATA)') $(if $(KEY),--key '$(KEY)') \
	  $(if $(ORDERING),--ordering '$(ORDERING)') $(if $(PARTITION),--partition '$(PARTITION)') \
	  $(if $(OP_COLUMN),--op-column '$(OP_COLUMN)')

test: $(READY) ## make check and the test suite side by side (what CI runs; WORKERS=4 for the tests, 0 for one after the other)
	@$(MAKE) --no-print-directory --jobs=2 --keep-going $(if $(PYTEST_ARGS),,check) suite

# A test of over ten minutes hangs: its worker prints the stacks of all threads and ends, and the suite ends with the name.
suite: $(READY)
	$(BIN)/python -m pytest -m "not slow" --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder \
	  --max-worker-restart 0 -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true $(PYTEST_ARGS)

test-long: check ## make check, then all tests, the slow ones too (LONG_SECONDS=240 for the long history and the state machines)
	CHRONOLAKE_EXAMPLES=all $(BIN)/python -m pytest $(PYTEST_ARGS)
	$(if $(HUDI_JAR)$(wildcard .hudi-env),$(MAKE) --no-print-directory test-hudi EXAMPLES=50,@echo "The tests with real Hudi are left out: run make test-hudi")
	$(MAKE) --no-print-directory test-flink
	$(MAKE) --no-print-directory test-clients
	$(MAKE) --no-print-directory test-poolers

# CLIENTS_ENV names a folder that is there.
test-clients: $(READY) ## clients generated from the OpenAPI document for Go, TypeScript, Java and Python, compiled and called (0.5 GB once, into .clients-env, or CLIENTS_ENV=…; npm, go, Maven)
	@$(BIN)/python tools/make_client_env.py $(or $(CLIENTS_ENV),.clients-env)
	$(BIN)/python -m pytest -m generated -rs tests/generated $(PYTEST_ARGS)

# The tests fail where there is no pgbouncer. PGBOUNCER names a program that is not installed.
test-poolers: $(READY) ## the tests with a real pgbouncer (apt-get install pgbouncer, or PGBOUNCER=…)
	$(BIN)/python -m pytest -m pgbouncer tests/poolers $(PYTEST_ARGS)

# Another Spark than Chronolake's, so an environment of its own. HUDI_PYTHON and HUDI_JAR name one that is there.
test-hudi: $(READY) ## the tests with real Hudi (pyspark 3.5.9, Hudi's bundle 1.2.0, Hadoop's S3A: 0.8 GB once, into .hudi-env; or HUDI_PYTHON=… HUDI_JAR=…; EXAMPLES=50 random histories)
	@$(if $(and $(HUDI_PYTHON),$(HUDI_JAR)),,$(BIN)/python tools/make_hudi_env.py .hudi-env)
	$(if $(EXAMPLES),HUDI_EXAMPLES=$(EXAMPLES) )$(BIN)/python -m pytest -m hudi_spark -rs tests/hudi $(PYTEST_ARGS)

# FLINK_ENV names a folder with Flink's jars that is there.
test-flink: $(READY) ## the tests with a real Flink (Flink 2.3.0: 0.2 GB once, into .flink-env, or FLINK_ENV=…; a JDK 17 or later)
	@$(if $(FLINK_ENV),,$(BIN)/python tools/make_flink_env.py .flink-env)
	$(BIN)/python -m pytest -m flink -rs tests/flink $(PYTEST_ARGS)

check: $(STAMP) ## ruff, clang-format, mypy --strict, the import contracts, sizes of modules, words, and whether the blocking client is as generated
	$(BIN)/python tools/check.py

sync: $(STAMP) ## generate the blocking client from the client for an event loop, and the errors from the table of problems
	$(BIN)/python tools/async_to_sync.py
	$(BIN)/python tools/write_errors.py

format: $(READY) ## let ruff and clang-format put the code in shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python tools/format_java.py

bench-timeline: $(READY) ## the timeline over REST against plain SQL (SECONDS=10 CASES=bcdef INSTANTS=1000000; CHECK=1 fails on a missed target)
	$(BIN)/python -m benchmarks.timeline

bench-slices: $(READY) ## the files of a million slices as Arrow over REST against COPY (CASES=abcde FILES=100000 PARTITIONS=1000; CHECK=1 fails on a missed target)
	$(BIN)/python -m benchmarks.slices

bench-services: $(READY) ## table services: planning beside plain SQL, compaction beside PyArrow and Spark, clustering, reads, other writers (GROUPS=100000 BENCH_MB=1000 CASES=planning,arrow,spark,clustering,reads,writers, CASES=stream MINUTES=60; CHECK=1 fails on a missed target)
	$(BIN)/python -m benchmarks.services

bench-against: $(READY) ## a benchmark beside that of another revision, in turns (REV=<tag or commit> BENCH=timeline TURNS=2, and the benchmark's own variables)
	$(BIN)/python -m benchmarks.against

bench-markers: $(READY) ## markers over REST against empty requests and files (MARKERS=20000 SECONDS=10; CHECK=1 fails on a missed target)
	$(BIN)/python -m benchmarks.markers

bench-streaming: $(READY) ## streams: one instant for many tasks, writers that wait and that do not, large checkpoints, Spark (CASES=ac COMPLETIONS=0.2,2 INTERVALS=1; CHECK=1)
	$(BIN)/python -m benchmarks.streaming

bench-followers: $(READY) ## reads and memory beside followers of the log (FOLLOWERS=1000; CHECK=1 fails on a missed target)
	$(BIN)/python -m benchmarks.followers

bench-publishing: $(READY) ## publication for Hudi's readers: rate, lag, cost, opening, adoption (CASES=abcde SECONDS=10 COMMITS=2000; CHECK=1 fails on a missed target)
	$(BIN)/python -m benchmarks.publishing

bench-rows: $(READY) ## rows by the client without Spark: scans beside pyarrow.dataset, upserts beside delta-rs, DuckLake and PyIceberg, a load of CSV (ROWS=5000000 ROUNDS=5 CASES=scans,upserts,ingest; CHECK=1 fails on a missed target)
	@$(BIN)/python tools/install.py --constraint constraints.txt --group bench
	$(BIN)/python -m benchmarks.rows

bench-iceberg: $(READY) ## loading an Iceberg table after a commit, beside loading it unchanged (FILES=1000,20000 SNAPSHOTS=1,500 ROUNDS=9; CHECK=1 fails on a missed target)
	$(BIN)/python -m benchmarks.iceberg

bench-spark: $(READY) ## Spark's writes and reads against plain Spark (CASES=abcdefgh ROWS=5000000; CHECK=1 fails on a missed target)
	$(BIN)/python -m benchmarks.spark

bench-hudi: $(READY) ## the same work with Chronolake and with Hudi 1.2.0, in turns (ROWS=5000000; the environment of test-hudi; CHECK=1)
	@$(if $(and $(HUDI_PYTHON),$(HUDI_JAR)),,$(BIN)/python tools/make_hudi_env.py .hudi-env)
	$(BIN)/python -m benchmarks.hudi

bench-delta: $(READY) ## SQL with Chronolake and with Delta Lake, in turns (ROWS=5000000; the PySpark of check-jar; CHECK=1)
	@$(BIN)/python tools/check_jar.py 4.1.1
	$(BIN)/python -m benchmarks.delta

bench-archive: $(READY) ## bytes of a small commit in PostgreSQL by table, index and column; reading an archive; growth of the database with archiving on (COMMITS=20000 INSTANTS=10000000; CHECK=1 fails on a missed target)
	$(BIN)/python -m benchmarks.archive
	$(BIN)/python -m benchmarks.growth

bench-proof: $(READY) ## verify and rebuild a long log (EVENTS=100000): seconds, memory, how long commands wait
	$(BIN)/python -m benchmarks.proof

soak: $(READY) ## a table under load for MINUTES=30: two Spark applications and a Python job write, all services run, savepoints, cleans, kill -9 (SEED=1 STORAGE=s3; CHECK=1)
	$(BIN)/python -m benchmarks.soak

budgets: $(READY) ## write the statements and round trips of each command again
	WRITE_BUDGETS=1 $(BIN)/python -m pytest -q tests/store/test_budgets.py

walks: $(READY) ## count the files that a begin, a complete and a checkpoint pass in client and server (FILES=1 names them)
	@$(BIN)/python tools/walks.py $(if $(FILES),--files)

fuzz: $(READY) ## attack the REST API with requests made from its OpenAPI document (SECONDS=600 SEED=1)
	$(BIN)/python -m tests.fuzz $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

docs: $(READY) ## write the generated references again
	$(BIN)/python -m docs.generate
	$(BIN)/python docs/vectors.py

clean: ## remove the environment and what the demo left
	rm -rf $(VENV) .hudi-env .flink-env .clients-env .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse
