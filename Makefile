# Every target is one line; `make help` lists them. Nothing needs an account or Docker.
.DEFAULT_GOAL := help
.PHONY: help demo test test-all check serve services services-stop lock openapi settings-page page-words resources-page synth sam-validate package promote prune smoke index-job bench-load soak clean bench-load-rate bench-one-change bench-verbosity
# Local use needs few packages; EXTRAS=llm,aws, another store or a remote model adds more.
WANTED := $(EXTRAS) $(if $(INDEX)$(DOCSTOKG_INDEX_URL),opensearch aws) $(if $(GRAPH)$(DOCSTOKG_GRAPH_URL),neo4j) \
  $(if $(DOCSTOKG_LLM_BASE_URL)$(DOCSTOKG_LLM_API_KEY)$(DOCSTOKG_OPENAI_API_KEY)$(DOCSTOKG_ANTHROPIC_API_KEY),llm)
COMMA := ,
LOCK := requirements/demo.lock $(foreach extra,$(sort $(filter-out local documents names client,$(subst $(COMMA), ,$(WANTED)))),requirements/extra-$(extra).lock)
STORES := $(if $(INDEX),--index $(INDEX)) $(if $(GRAPH),--graph $(GRAPH))
# Measure time, so that they run alone.
DEADLINES := tests/e2e/test_many_clients.py tests/faults/test_deadlines.py tests/faults/test_hostile_text.py tests/faults/test_hostile_patterns.py
# Takes ten minutes and runs separately, as other tests are timed: `make deploy-local`.
DEPLOYED := tests/infra/test_deploy_local.py
ENV ?= dev
# Another file than environments.toml.
export ENVIRONMENTS
MINUTES ?= 30
# The checkout's own store: a .docstokg/ in the folder wins over the user's data folder.
# Use the system's certificate store, which contains a company's own certificate authority.
export UV_SYSTEM_CERTS := 1
# Tests start a thousand processes: modules are compiled once, not in each.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := .venv/bin/python -m pytest -n 2 --dist loadgroup
# Many processes share two cores: repeat a test once, marked as a rerun, if a step was too late.
AGAIN := --reruns 1 --reruns-delay 5 --only-rerun _timeout
QUICK := tests/unit tests/contract tests/workflow tests/e2e/test_page.py tests/e2e/test_browser.py \
  tests/infra/test_template.py

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

demo: ## set up, build the demo store and ask a question (EXTRAS=llm: more packages; INDEX=, GRAPH=: other stores)
	@scripts/setup $(LOCK) && mkdir -p .docstokg && .venv/bin/docstokg demo $(STORES)

test: ## set up and run the quick tests: unit, contracts, workflow, page, synth (seven minutes)
	@scripts/setup requirements.lock && $(PYTEST) $(QUICK) -m "not services and not slow"

test-all: test ## also run all other tests: servers, faults, kills, wheels, deployment guide, broken requirements
	@$(PYTEST) $(AGAIN) $(addprefix --ignore=,$(QUICK) $(DEADLINES) $(DEPLOYED)) tests && $(PYTEST) $(QUICK) -m "services or slow" && .venv/bin/python -m pytest $(DEADLINES) && .venv/bin/python -m pytest $(DEPLOYED) && .venv/bin/python -m benchmarks.requirements 6 5

check: ## format, lint, type check and compare sizes with their budgets
	@scripts/setup requirements.lock && .venv/bin/ruff format --check . && .venv/bin/ruff check . && .venv/bin/mypy && .venv/bin/python -m benchmarks.size

serve: ## start the HTTP API on 127.0.0.1:8080
	@scripts/setup $(LOCK) && mkdir -p .docstokg && .venv/bin/docstokg serve $(STORES)

services: ## start OpenSearch and Neo4j on loopback
	@scripts/setup requirements.lock && .venv/bin/python -m tests.jvm.servers start

services-stop: ## stop OpenSearch and Neo4j
	@.venv/bin/python -m tests.jvm.servers stop

lock: ## rewrite every lock file from pyproject.toml
	@scripts/lock

openapi: ## rewrite docs/openapi.json from the contracts
	@.venv/bin/python -c 'from docstokg_local.server.openapi import document_text; print(document_text(), end="")' > docs/openapi.json

settings-page: ## rewrite docs/settings.md from the settings
	@.venv/bin/python -m docstokg_local.cli.settings_page > docs/settings.md

page-words: ## rewrite the page's reason texts and media types from contracts/
	@.venv/bin/python -m docstokg_local.cli.page_words > functions/page/static/words.js

resources-page: ## rewrite docs/resources.md from the templates
	@.venv/bin/python -m infra.app dev staging prod --sources --out build/resources > /dev/null
	@.venv/bin/python -m tests.infra.resources_page build/resources > docs/resources.md

synth: ## write the CloudFormation template of ENV (dev, staging, prod); needs no account
	@scripts/setup requirements.lock && .venv/bin/python -m infra.app $(ENV)

sam-validate: ## validate the template of ENV with the AWS SAM CLI; needs no account
	@scripts/setup requirements.lock && scripts/sam-validate $(ENV)

package: ## build each function's bundle for aarch64 and for this machine, into build/
	@scripts/setup requirements.lock && .venv/bin/python -m infra.package

promote: ## shift traffic of ENV to the newest version (PERCENT=10, 50, 100)
	@scripts/setup requirements.lock && .venv/bin/python -m infra.promote $(ENV) $(PERCENT)

bench-load-rate: ## compare the load rate with commit BASE, as Markdown
	@scripts/setup requirements.lock && .venv/bin/python -m benchmarks.bench_load_rate $(BASE) \
		--report build/load_rate.md

bench-one-change: ## time of loading one changed document among CHUNKS=100000, and its digest after ten kills (MORE="--graph neo4j --base COMMIT")
	@scripts/setup requirements.lock && .venv/bin/python -m benchmarks.bench_one_change \
		--chunks $(or $(CHUNKS),100000) $(MORE)

bench-verbosity: ## latency and graph work of 25 questions per verbosity, as CSV and Markdown (MORE="--configured")
	@scripts/setup requirements.lock && .venv/bin/python -m benchmarks.verbosity $(MORE)

bench-load: ## measure the server with 1 to 128 clients and with broken stores (STORE=file or real, QUESTIONS=, MORE="--load FOLDER --seconds 60")
	@scripts/setup requirements.lock && .venv/bin/python -m benchmarks.load bench $(STORE) $(QUESTIONS) --faults $(MORE)

soak: ## run at half of the capacity for MINUTES= (STORE=, QUESTIONS=, MORE= as above)
	@scripts/setup requirements.lock && .venv/bin/python -m benchmarks.load soak $(STORE) $(QUESTIONS) --minutes $(MINUTES) $(MORE)

.PHONY: clients
clients: ## try clients of OpenAI's format and of MCP, as others publish them, against the server at URL=
	@"$$(scripts/find-tool clients python)" tests/e2e/real_clients.py $(or $(URL),http://127.0.0.1:8080)

prune: ## remove versions of ENV that no rollback needs
	@scripts/setup requirements.lock && .venv/bin/python -m infra.prune $(ENV)

.PHONY: destroy deploy-local template rollout
rollout: ## deploy ENV, run the smoke test at its first share of the traffic, go back if that fails (URL=)
	@scripts/setup requirements.lock && URL=$(URL) .venv/bin/python -m infra.rollout $(ENV)

deploy-local: ## run the deployment guide in an emulated account, with real stores if Java is installed
	@scripts/setup requirements.lock && .venv/bin/python -m infra.package host >/dev/null && .venv/bin/python -m tests.infra.emulator.deploy_local

template: ## write template, parameters and code of ENV to build/template, to deploy without CDK
	@scripts/setup requirements.lock && .venv/bin/python -m infra.template $(ENV)

.PHONY: docs-site
docs-site: ## build docs/ as a site into build/site; a dead link is an error
	@NO_MKDOCS_2_WARNING=1 "$$(scripts/find-tool site mkdocs)" build --strict && echo "build/site/index.html"

destroy: ## delete both stacks of ENV and the resources that block their deletion
	@scripts/setup requirements.lock && .venv/bin/python -m infra.destroy $(ENV)

smoke: ## ask, load, delete and trigger one alarm (URL=, ENV= for a deployed environment)
	$(if $(URL),,$(error URL is required: make smoke URL=https://... ENV=dev))
	@scripts/setup requirements.lock && .venv/bin/python -m infra.smoke --url $(URL) $(if $(filter-out file,$(origin ENV)),--env $(ENV))

index-job: ## run a job on an OpenSearch index (JOB="resize", "rebuild NAMESPACE", "agree RUN")
	@scripts/setup requirements.lock && .venv/bin/python -m docstokg_local.cli.index_jobs $(JOB)

clean: ## remove build output and caches, but no data
	@rm -rf build cdk.out .pytest_cache .mypy_cache .ruff_cache .hypothesis
