# The parts of scripts/test.sh, for work on one of them.

default:
    @just --list

# Format, lints, documentation
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
    RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --locked

# Unit and property tests
test:
    scripts/test.sh unit

# Tests against real API servers
integration:
    scripts/test.sh integration

# End to end, on a fleet of its own
fleet:
    scripts/test.sh fleet

# Licenses, sources, advisories, duplicate and banned crates
deny:
    scripts/test.sh dependencies

# Everything, also what needs minutes of waiting
all:
    scripts/test.sh --all

# The charts: goldens, schemas, and on a real API server
charts:
    scripts/test.sh charts

# Rewrite what is generated from the code
generate:
    UPDATE=1 cargo test -p argosy --test generated
    UPDATE=1 cargo test -p argosy-tests --test charts goldens

# The book, as pages in target/book
book:
    scripts/toolchain.sh ensure mdbook
    $(scripts/toolchain.sh path)/mdbook build docs

# A fleet to play with
up:
    scripts/install-all.sh

down:
    scripts/uninstall-all.sh

# Latency beside the floor
bench:
    scripts/bench.sh

# The model with other scripts than the test's: just explore 7
explore seed:
    ARGOSY_MODEL_SEED={{seed}} ARGOSY_MODEL_SCRIPTS=20020 cargo test --package argosy-core --test model --locked

# Shows that the model can fail
mutations:
    scripts/mutations.sh

# Kills and cuts on the fleet that is up: just chaos --minutes 30
chaos *arguments:
    scripts/chaos.sh {{arguments}}
