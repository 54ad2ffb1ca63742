# The commands of Touchstone; `make help` lists them. Each installs what it needs, in this folder only.
.PHONY: help run unlock verify wheels machine-check test test-fast test-all test-release test-conda test-slurm fuzz \
    test-faults parity gpu-check gpu-rehearsal bench simulate lint snakefmt ruff format mypy words \
    spelling dev docs pin clean
.DELETE_ON_ERROR:
.DEFAULT_GOAL = run
SNAKEMAKE = .venv/bin/snakemake
# The first Python of these that runs and has venv. A command of pyenv may exist and not run.
SUITS = import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
PYTHON = $(shell for python in python3.11 python3.12 python3.13 python3.14 python3; do \
    $$python -c '$(SUITS)' 2> /dev/null && echo $$python && break; done)
# Builds docs/ as a site that needs no network; a broken link is an error.
SITE = .venv/bin/python -m sphinx --quiet --fail-on-warning --keep-going docs site

listed = sed -n 's/^\([a-z-]*\):.*\#$(1) /\1 /p' Makefile | while read -r name text; \
    do printf '  %-14s %s\n' "$$name" "$$text"; done

help: ## list the commands
	@$(call listed,\#)
	@echo 'For developers:'
	@$(call listed,-)

# The shell gets what the user says from its environment, so that it is never part of a command;
# `value` keeps `make` from expanding it.
override CONFIG := $(value CONFIG)
override RERUN := $(value RERUN)
export CONFIG RERUN
# Messages name the commands of who started.
export TOUCHSTONE_STARTED = make

# Certificates and data sets are prepared in parallel; runs never overlap. RERUN=disturbed repeats the runs
# of the study that other programs disturbed, RERUN=all all of its runs.
run: .venv/base ## run the default study, or another one: make run CONFIG=my-study.yaml
	@$(if $(RERUN),.venv/bin/python workflow/scripts/cli.py repeat -- "$$RERUN" $(if $(CONFIG),"$$CONFIG"))
	@.venv/bin/python workflow/scripts/start.py run $(if $(CONFIG),-- "$$CONFIG")

unlock: .venv/base ## remove the lock that a killed execution left
	$(SNAKEMAKE) --unlock

verify: .venv/base ## check downloads, converted data and results; REPAIR=1 deletes damaged data
	@.venv/bin/python workflow/scripts/cli.py verify $(if $(REPAIR),--repair)

wheels: .venv/base ## fill wheels/ for a machine without a network; FRAMEWORKS="pytorch jax"
	@.venv/bin/python workflow/scripts/cli.py wheels $(FRAMEWORKS)

machine-check: ## measure in minutes what this machine can do, beside four published machines
	@$(MAKE) --no-print-directory run CONFIG=config/studies/machine-check.yaml

# Two processes, each with a core of its own. Other frameworks: make test FRAMEWORKS="pytorch jax".
TEST = $(if $(FRAMEWORKS),FRAMEWORKS="$(FRAMEWORKS)") .venv/bin/python -m pytest -n 2

test: .venv/dev ## prove that the product works; FRAMEWORKS="pytorch jax" tests only these
	$(TEST) -m "not long"

test-fast: .venv/dev #- run the tests that need no framework, in a minute
	$(TEST) -m fast tests/smoke tests/unit

# The lines and branches that tests execute go to .coverage/report.txt, with those of what they start, unless
# COVERAGE is empty. The tests of conda and Slurm mostly wait, so others run beside them; those of the sensors
# need a calm machine.
COVERAGE = yes
test-all: export COVERAGE_FILE = $(CURDIR)/.coverage/data
test-all: .venv/dev #- run what CI does: also conda, Slurm, browsers, sensors and long studies
	rm -rf .coverage && mkdir .coverage
	.venv/bin/python -m pytest tests/calibration
	make --no-print-directory --jobs=2 --output-sync=target test-conda test-slurm & \
	    $(if $(COVERAGE),$(TEST:python=coverage run),$(TEST)) -m "not release" tests --ignore tests/conda \
	    --ignore tests/slurm --ignore tests/calibration || status=$$?; \
	    wait $$! $(if $(COVERAGE),&& .venv/bin/coverage report > .coverage/report.txt) && exit $${status:-0}

test-release: .venv/dev #- run the remaining tests: torch.compile's kernels, the bench, the check of a GPU
	$(TEST) -m release

test-conda: .venv/dev #- test `snakemake --use-conda`, with a conda of its own if there is none
	.venv/bin/python -m pytest tests/conda

# Takes root; installs Debian's Slurm if the machine has none. Prints why it skips a test.
test-slurm: .venv/dev #- test `snakemake --profile profiles/slurm` on a temporary Slurm cluster
	.venv/bin/python -m pytest -rs tests/slurm

# Neither is part of the tests above: they take as long as they are asked to.
fuzz: .venv/dev #- damage all kinds of files for 10 minutes, or MINUTES=60; list those that end without a message
	.venv/bin/python tests/fuzz.py --minutes $(or $(MINUTES),10)

test-faults: .venv/dev #- kill a small study 200 times, or KILLS=20; nothing may be lost or left
	.venv/bin/python tests/faults.py --kills $(or $(KILLS),200)

# In an environment that exists, without a network; docs/gpus.md says what it needs.
gpu-check: ## check a GPU in 30 minutes, or MINUTES=10: make gpu-check PYTHON=/path/to/python
	@PYTHONPATH="workflow/scripts$${PYTHONPATH:+:$$PYTHONPATH}" \
	    $(if $(wildcard .venv/bin/python),.venv/bin/python,$(PYTHON)) workflow/scripts/cli.py check-gpu \
	    --python "$$(command -v $(PYTHON))" --device $(or $(DEVICE),gpu) --minutes $(or $(MINUTES),30) \
	    $(if $(ONLY),--only $(ONLY))

# Installs envs/*-gpu.yaml, gigabytes of packages.
gpu-rehearsal: .venv/dev #- run the code for GPUs without a GPU, in the environments for GPUs
	GPU_ENVIRONMENTS=1 .venv/bin/python -m pytest -rs -n 2 tests/contract/test_rehearsal.py \
	    tests/unit/test_nvml_library.py tests/unit/test_sensors_gpu.py tests/unit/test_skip.py

parity: .venv/base ## prove for every network that the frameworks compute the same
	@$(SNAKEMAKE) parity --cores all

bench: export PYTHONPATH = workflow/scripts
bench: .venv/base #- compare our speed with experts' loops; leave the machine idle meanwhile
	.venv/bin/python benchmarks/compare.py
	.venv/bin/python benchmarks/compare.py --start
	.venv/bin/python benchmarks/monitor.py
	.venv/bin/python benchmarks/datasets.py
	.venv/bin/python benchmarks/readers.py

simulate: export PYTHONPATH = workflow/scripts
simulate: .venv/base #- simulate how often an answer is wrong, as in docs/measured.md
	.venv/bin/python benchmarks/simulate.py

lint: snakefmt ruff format mypy words spelling #- check style, types, workflow and docs
	$(SNAKEMAKE) --lint
	$(SITE)

# Each of these is a commit hook too: see .pre-commit-config.yaml.
snakefmt: .venv/dev
	.venv/bin/snakefmt --check Snakefile workflow

ruff: .venv/dev
	.venv/bin/ruff check .

format: .venv/dev
	.venv/bin/ruff format --check .

mypy: .venv/dev
	.venv/bin/mypy workflow/scripts

words: .venv/base
	.venv/bin/python workflow/scripts/cli.py check-style

# What a user reads; pyproject.toml has the words that are right here.
spelling: .venv/dev
	.venv/bin/codespell README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md config/README.md docs \
	    workflow/scripts/touchstone/report workflow/scripts/touchstone/published

dev: .venv/dev #- install a developer's tools, and hooks that check each commit
	.venv/bin/pre-commit install

docs: .venv/dev #- generate the reference pages from the models, and build the site
	.venv/bin/python workflow/scripts/cli.py document-config
	.venv/bin/python workflow/scripts/cli.py document-record
	.venv/bin/python workflow/scripts/cli.py document-run
	.venv/bin/python workflow/scripts/cli.py document-findings
	$(SITE)
	@echo "The site: $(CURDIR)/site/index.html"

pin: .venv/base #- update the pinned versions of an environment: make pin ENV=tensorflow
	.venv/bin/python workflow/scripts/cli.py pin envs/$(ENV).yaml \
	    $(if $(filter dev,$(ENV)),--on-top-of envs/base.yaml)

clean: ## delete all environments, results and the site
	rm -rf .venv .venvs .snakemake results site

# conda, pip and uv read the same list of packages in an environment's file. The developers' packages
# are listed with the base environment's that they need: uv wants hashes of all.
pip_list = sed -n 's/^      - \([^ ]*==.*\)/\1/p' $(2:%=envs/%.yaml) > .venv/$(1).txt
install = echo "installing the environment $(1): $$(wc -l < .venv/$(1).txt) packages (once)"; \
    .venv/bin/python workflow/scripts/cli.py install .venv/$(1).txt

define no_python
error: no Python from 3.11 to 3.14 with venv on PATH; install one of them, for instance
  Debian 12             apt install python3.11-venv
  Debian 13             apt install python3.13-venv
  Ubuntu 24.04          apt install python3.12-venv
  Fedora                dnf install python3.13
  pyenv                 pyenv install 3.11 && pyenv shell 3.11
  uv                    make run PYTHON="$$(uv python find 3.12)", after uv python install 3.12
  conda                 see docs/installation.md
endef
export no_python

# What is installed there may be in use by another folder.
no_link = if [ -L .venv ]; then echo "error: .venv is a link to $$(readlink .venv), which may be\
    another folder's: nothing is installed there; remove the link with \`rm .venv\`, and run make\
    again" >&2; exit 1; fi

# A .venv of another Python is replaced.
.venv/base: envs/base.yaml
	@$(no_link)
	@test -n "$(PYTHON)" || { echo "$$no_python" >&2; exit 1; }
	@$(PYTHON) -m venv --clear .venv
	@$(call pip_list,base,base)
	@$(call install,base)
	@printf '%s\n' '#!/bin/sh' 'here=$$(CDPATH= cd "$$(dirname "$$0")/../.." && pwd)' \
	    'exec "$$here/.venv/bin/python" "$$here/workflow/scripts/start.py" "$$@"' > .venv/bin/touchstone
	@chmod +x .venv/bin/touchstone
	@touch $@

.venv/dev: envs/dev.yaml .venv/base
	@$(no_link)
	@$(call pip_list,dev,base dev)
	@$(call install,dev)
	@touch $@
