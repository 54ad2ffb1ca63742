# The commands of Touchstone. Each sets up what it needs; nothing is installed outside
# this folder.
.PHONY: run unlock machine-check test test-fast test-all test-conda test-slurm parity bench lint snakefmt \
    ruff format mypy dev docs pin clean
.DELETE_ON_ERROR:
SNAKEMAKE = .venv/bin/snakemake
PYTHON = python3.11
# The pages of docs/ as a site that is read without a network; a link that leads nowhere is a fault.
SITE = .venv/bin/python -m sphinx --quiet --fail-on-warning --keep-going docs site

# Another study: make run CONFIG=config/studies/NAME.yaml. Certificates and data sets are made side
# by side, runs one by one.
run: .venv/base
	$(if $(CONFIG),.venv/bin/python workflow/scripts/cli.py check-config $(CONFIG))
	$(SNAKEMAKE) --cores all $(if $(CONFIG),--configfile $(CONFIG))
	@echo "The report: $(CURDIR)/results/report/index.html"

# After an execution was killed: removes its lock, unless another one runs here.
unlock: .venv/base
	$(SNAKEMAKE) --unlock

# What this machine can do, in minutes: basic operations, LeNet-5 and a small CNN, beside the
# machines of a published study.
machine-check:
	$(MAKE) run CONFIG=config/studies/machine-check.yaml
	@echo "Beside published machines: $(CURDIR)/results/report/machine-check.html"

# Two files of tests at a time. Other frameworks: make test FRAMEWORKS="pytorch jax"; without it, all.
TEST = $(if $(FRAMEWORKS),FRAMEWORKS="$(FRAMEWORKS)") .venv/bin/python -m pytest -n 2 --dist loadfile

# What proves the product.
test: .venv/dev
	$(TEST) -m "not long"

# What needs no framework, in a minute: while you write.
test-fast: .venv/dev
	$(TEST) -m fast tests/smoke tests/unit

# And conda, Slurm, browsers, the calibration of the sensors, and the long studies, as in CI.
test-all: .venv/dev
	$(TEST)

# Prove `snakemake --use-conda`, with a conda of its own if the machine has none.
test-conda: .venv/dev
	.venv/bin/python -m pytest tests/conda

# Prove `snakemake --profile profiles/slurm` on a Slurm started for it. Takes root, and installs
# Debian's Slurm on the machine if it has none; says why where it skips.
test-slurm: .venv/dev
	.venv/bin/python -m pytest -rs tests/slurm

# Prove for every network that the frameworks compute the same.
parity: .venv/base
	$(SNAKEMAKE) parity --cores all

# Our speed against experts' loops and users' programs, as ratios; let the machine rest meanwhile.
bench: export PYTHONPATH = workflow/scripts
bench: .venv/base
	.venv/bin/python benchmarks/compare.py
	.venv/bin/python benchmarks/compare.py --start
	.venv/bin/python benchmarks/monitor.py
	.venv/bin/python benchmarks/datasets.py
	.venv/bin/python benchmarks/readers.py

lint: snakefmt ruff format mypy
	$(SNAKEMAKE) --lint
	$(SITE)

# Each is a hook too: see .pre-commit-config.yaml.
snakefmt: .venv/dev
	.venv/bin/snakefmt --check Snakefile workflow

ruff: .venv/dev
	.venv/bin/ruff check .

format: .venv/dev
	.venv/bin/ruff format --check .

mypy: .venv/dev
	.venv/bin/mypy workflow/scripts

# What a developer needs: the tools, and hooks that check a commit before it is made.
dev: .venv/dev
	.venv/bin/pre-commit install

# Write again what is generated from the models of configuration, record and findings, and build the
# site.
docs: .venv/dev
	.venv/bin/python workflow/scripts/cli.py document-config
	.venv/bin/python workflow/scripts/cli.py document-record
	.venv/bin/python workflow/scripts/cli.py document-run
	.venv/bin/python workflow/scripts/cli.py document-findings
	$(SITE)
	@echo "The site: $(CURDIR)/site/index.html"

# Resolve an environment's pins anew: make pin ENV=tensorflow
pin: .venv/base
	.venv/bin/python workflow/scripts/cli.py pin envs/$(ENV).yaml \
	    $(if $(filter dev,$(ENV)),--on-top-of envs/base.yaml)

clean:
	rm -rf .venv .venvs .snakemake results site

# The pip list of an environment file is the same for conda and for us.
pip_list = sed -n 's/^      - \([^ ]*==.*\)/\1/p' envs/$(1).yaml > .venv/$(1).txt
install = .venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --require-hashes --requirement .venv/$(1).txt

no_python = error: no $(PYTHON) on PATH; install it (Debian: $(PYTHON)-venv; or pyenv install \
3.11), or use conda: see README.md

.venv/base: envs/base.yaml
	@command -v $(PYTHON) > /dev/null || { echo "$(no_python)" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(call pip_list,base)
	$(call install,base)
	@touch $@

.venv/dev: envs/dev.yaml .venv/base
	$(call pip_list,dev)
	$(call install,dev)
	@touch $@
