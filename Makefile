# The commands of the project. Each target first sets up what it needs.
export PATH := $(HOME)/.cargo/bin:$(PATH)

STOKER := target/release/stoker
SIM := cargo run --quiet --release --manifest-path sim/Cargo.toml --target-dir target/sim --
SEEDS ?= 100000
SEED ?= 1
ROUNDS ?= 1000

.PHONY: help run quick test bench build php setup check attack campaign sim fuzz bless clean

help:
	@echo 'make run    set up, build, and run a demonstration with a Laravel application'
	@echo 'make quick  what to run while working: half a minute once everything is built'
	@echo 'make test   set up and pass all tests'
	@echo 'make bench  measure against the references (see benches/README.md)'
	@echo 'make attack SEED=$(SEED)  attack a running Stoker in every known way, and check its limits'
	@echo 'make campaign ROUNDS=$(ROUNDS) SEED=$(SEED)  kill Stoker in many ways, and check that nothing is lost'
	@echo 'make sim    simulate SEEDS=$(SEEDS) seeds of the whole server, and of the core'
	@echo 'make bless  regenerate pages and test vectors'

run: build
	php examples/laravel/demo.php $(STOKER)

# Runs a sample of everything: style and module structure, the core's rules, both sides of the API, the real binary, and
# some simulation seeds.
quick:
	@scripts/modules
	@sim/prove --check
	@cargo fmt --all --check
	cargo test --quiet -p stoker-core --test table
	cargo test --quiet -p stoker-api -p stoker-wire -p stoker-workers
	cargo test --quiet -p stoker --test it -- check:: jobs:: rpc:: requests:: exec::
	$(SIM) --no-shrink --seeds 300

test: setup check
	cargo build --workspace --all-targets --quiet
	$(MAKE) -s -C crates/php OUT=$(CURDIR)/target/debug
	cargo test --workspace --quiet
	cargo test --release --quiet --manifest-path sim/Cargo.toml --target-dir target/sim
	$(SIM) --seeds 4000
	php sdk/php/tests/run.php
	php sdk/php/laravel/tests/run.php
	docs/run.py --binary target/debug/stoker
	tests/http/judges.py --binary target/debug/stoker
	tests/http/smuggling.py --binary target/debug/stoker
	tests/http/hostile.py --binary target/debug/stoker
	tests/fpm/load.py --binary target/debug/stoker
	campaign/network.py --binary target/debug/stoker --rounds 7
	campaign/sites.py --binary target/debug/stoker --rounds 3 --seconds 4
	campaign/run.py --binary target/debug/stoker --seed 1 --rounds 20 --jobs 2
	campaign/run.py --binary target/debug/stoker --seed 1 --rounds 10 --jobs 2 --powercut
	campaign/run.py --binary target/debug/stoker --seed 1 --rounds 10 --powercut --expect-loss

# Checks style and structure. Formatting and lints are skipped if the toolchain lacks rustfmt or clippy.
check: setup
	@if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check && cargo fmt --manifest-path sim/Cargo.toml --check; fi
	@scripts/modules
	@sim/prove --check
	@docs/links.py
	@if cargo clippy --version >/dev/null 2>&1; then cargo clippy --workspace --all-targets --quiet -- -D warnings \
		&& cargo clippy --manifest-path sim/Cargo.toml --target-dir target/sim --all-targets --quiet -- -D warnings; fi

bench: build
	cargo build --release --quiet -p stoker-core --example core-bench
	cargo build --release --quiet -p stoker-gateway --example http-bench
	python3 benches/run.py

build: setup php
	cargo build --release --quiet -p stoker

# The PHP host program of strategy = "sapi", beside `stoker`.
php: setup
	$(MAKE) -s -C crates/php OUT=$(CURDIR)/target/release

setup:
	@scripts/setup

attack: build
	cargo build --workspace --all-targets --quiet
	cargo test -p stoker-attack -- --all --strict --jobs 1 --seed $(SEED) --binary $(CURDIR)/$(STOKER)

campaign: build
	cargo build --quiet --release --manifest-path sim/Cargo.toml --target-dir target/sim
	campaign/run.py --seed $(SEED) --rounds $(ROUNDS) --jobs 2

sim: setup
	$(SIM) --seeds $(SEEDS)
	STOKER_SEEDS=$(SEEDS) cargo test --release -p stoker-core --test simulation -- --nocapture

fuzz:
	cd fuzz && cargo fuzz run frames -- -max_total_time=60 && cargo fuzz run hello -- -max_total_time=60 && \
		cargo fuzz run requests -- -max_total_time=60 && cargo fuzz run import -- -max_total_time=60

bless: setup
	STOKER_BLESS=1 cargo test --quiet -p stoker --bin stoker reference
	STOKER_BLESS=1 cargo test --quiet -p stoker-wire --test vectors

clean:
	cargo clean
