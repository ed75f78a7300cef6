# Two commands do everything on a machine that has Python 3.11 or newer: `make run` and `make test`.
# `make desk` is a second, larger thing to look at.

.PHONY: help run desk test check bench clean constraints ready-run ready-desk ready-test
.DEFAULT_GOAL := help

PY := .venv/bin/python
# Where Python is told to keep no bytecode (container images do that), every start of a program compiles all of it anew.
export PYTHONDONTWRITEBYTECODE :=

help:
	@echo "make run     set up, run reconcile on manifests/, send a first request, keep serving until Ctrl-C"
	@echo "               LISTEN=127.0.0.1:8090  another address than the manifest's"
	@echo "make desk    set up examples/desk (another 490 MB to fetch), serve its seven models, give each some work"
	@echo "make test    set up, run every check and every test (also: make check)"
	@echo "make bench   set up, run every benchmark, print one table"
	@echo "make clean   remove what the other commands made here (weights stay in your cache folder)"
	@echo "PYTHON=/path/to/python3.12 with any of them: which Python makes .venv"

run: ready-run
	@exec $(PY) tools/first_run.py manifests $(if $(LISTEN),--listen '$(LISTEN)')

desk: ready-desk
	@exec $(PY) -m examples.desk.run

# What fails soonest comes first; the desk and what compares times, which need the machine for themselves, last. Four
# workers on two cores: most tests wait for processes. Of the live runs that are compared with their simulation, that of
# llama.cpp, another minute, is left to `pytest -m alone`.
test check: ready-test
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	$(PY) -m reconciler.manifest.schema --check
	$(PY) -m reconciler.manifest.reference --check
	$(PY) -m reconciler.glossary.page --check
	$(PY) -m reconciler.render.schemas --check
	$(PY) -m reconciler.gateway.openapi --check
	.venv/bin/lint-imports
	.venv/bin/mypy reconciler tests benchmarks tools
	$(PY) -m pytest -n 4 --dist loadfile -m "not desk and not alone"
	@$(PY) -m examples.desk.setup
	$(PY) -m pytest -m "desk or alone" tests/integration/test_desk.py tests/integration/test_simulate_fidelity.py \
		--deselect tests/integration/test_simulate_fidelity.py::test_a_live_run_of_llama_cpp_and_its_replay

bench: ready-test
	$(PY) -m benchmarks

ready-run:
	@tools/setup llama
	@$(PY) tools/fetch_weights.py

ready-desk: ready-run
	@$(PY) -m examples.desk.setup

ready-test:
	@tools/setup llama dev
	@$(PY) tools/fetch_weights.py

constraints: ready-test
	$(PY) tools/renew_constraints.py

clean:
	rm -rf examples/desk/.venv examples/desk/weights examples/desk/out
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find reconciler tests tools benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
	if [ -L weights ]; then rm weights; fi
