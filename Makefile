# Every target sets up the environment it needs; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV ?= .venv
NAME ?= tiny-cpu
SWEEP ?= kl
export PROMPT ?=
PY := $(VENV)/bin/python
TESTS := -m "not long and not gpu"

# Nothing phones home, and no hub is asked unless you say HF_HUB_OFFLINE=0.
export HF_HUB_OFFLINE ?= 1
export HF_HUB_DISABLE_TELEMETRY := 1
export DO_NOT_TRACK := 1
export DVC_NO_ANALYTICS := 1
export GX_ANALYTICS_ENABLED := false
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export RAY_USAGE_STATS_ENABLED := 0
export VLLM_NO_USAGE_STATS := 1
export PATH := $(abspath $(VENV)/bin):$(PATH)

demo: setup           ## the whole pipeline, from data to the aligned policy and its report
	$(PY) -m flows.train
demo-controls: setup  ## the same with shuffled preference labels and without KL: what must not work does not
	$(PY) -m scripts.controls
sweep: setup          ## make sweep SWEEP=kl: run the experiments of presets/sweeps/kl.yaml and compare
	$(PY) -m scripts.sweep $(SWEEP)
test: lint            ## lint, then every test that needs no GPU, the fast ones first
	$(PY) -m pytest $(TESTS) tests/unit tests/contract tests/flows tests/faults tests/end_to_end
test-long: setup      ## minutes of real training on two workers and two nodes; the browser walk
	$(PY) -m pytest -m long tests
lint: setup           ## ruff and mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy src stages flows scripts benchmarks tests
preset: setup         ## make preset NAME=smollm2-135m: put that experiment into params.yaml
	$(PY) -m scripts.preset $(NAME)
chat: setup           ## make chat PROMPT="Describe the river.": ask the trained policy
	$(PY) -m scripts.chat "$$PROMPT"
ui: setup             ## the Prefect server with its pages and the deployments; prints the address
	$(PY) -m flows.serve
params-docs: setup    ## rewrite docs/params.md from the typed models
	$(PY) -m scripts.params_docs
estimate: setup       ## what PPO with these params takes: memory, disk, time (GPU_GIB=80: on other GPUs)
	$(PY) -m scripts.estimate $(if $(GPU_GIB),--gpu-gib $(GPU_GIB))
bench-data: setup     ## how many rows a second the data stages take
	$(PY) -m benchmarks.data
faults: setup         ## kill, damage and starve a real run, and see it recover
	$(PY) -m pytest -m "not long and not gpu" -rP tests/faults tests/unit/checkpoints
	$(PY) -m benchmarks.faults
lock: setup           ## rebuild requirements/*.lock from pyproject.toml
	scripts/lock.sh
gpu-env:              ## .venv from requirements/gpu.lock, for machines with NVIDIA GPUs
	scripts/setup.sh gpu
setup: ; @scripts/setup.sh
clean-checkpoints: setup ## delete the checkpoints in .scratch that no ledger pins
	$(PY) -m scripts.clean_checkpoints
clean:                ## remove models, reports, logs and scratch (DVC's cache, releases and data/raw stay)
	rm -rf models reports logs data/prepared data/validated .scratch
help:
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: demo demo-controls sweep test test-long lint preset chat ui params-docs estimate bench-data faults lock gpu-env setup clean-checkpoints clean help
