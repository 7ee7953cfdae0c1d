# The few things that people do. CMake and ninja do the work; everything lands in build/.

BUILD ?= build
MODEL ?= models/miniature
CMAKE_FLAGS ?=

.PHONY: all configure demo test test-arm64 test-sanitize fuzz format check setup setup-test clean

all: configure
	ninja -C $(BUILD) slotstream

configure:
	@tools/configure.sh $(BUILD) $(CMAKE_FLAGS)

# Debian packages that are missing: to build, and to test.
setup:
	@tools/setup.sh build
setup-test:
	@tools/setup.sh build test

# The main job on a fresh machine: set up, build, ask the miniature.
demo: setup all
	$(BUILD)/slotstream run --model $(MODEL) --greedy --prompt "What is the capital of France?"

# All tests on a fresh machine.
test: setup-test
	tests/run_all.sh $(BUILD)

# The whole program for arm64 under qemu, compared with this machine's; builds everything once more.
test-arm64: setup-test all
	tests/arm64.sh $(BUILD)/arm64 $(BUILD)/slotstream

# The real server with its clients, hostile ones too, and the unit tests, under the sanitizers;
# SANITIZER=address or thread: under one of them.
SANITIZER ?=
test-sanitize: setup-test
	tests/run_sanitized.sh $(SANITIZER)

# Random requests, replies and HTTP under the sanitizers, each for FUZZ_SECONDS.
FUZZ_SECONDS ?= 60
fuzz: setup-test
	tests/fuzz/run.sh $(FUZZ_SECONDS)

# Rewrites the sources in the house's format; `check` only complains.
format:
	clang-format-19 -i $$(git ls-files 'src/*.h' 'src/*.cc' 'tests/*.cc' 'bench/*.cc')
check:
	tools/check_house.py
	@if command -v clang-format-19 > /dev/null; then \
	  clang-format-19 --dry-run --Werror $$(git ls-files 'src/*.h' 'src/*.cc' 'tests/*.cc' 'bench/*.cc'); \
	else echo "clang-format-19 is not installed: format not checked"; fi

clean:
	rm -rf $(BUILD)
