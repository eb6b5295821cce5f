# What people who work on linkerd-mc type. `.ci/run` runs fmt, lint, test and playground, and does not need just.

# Show the recipes
default:
    @just --list

# Check the format (`cargo fmt --all` mends it)
fmt:
    cargo fmt --all --check

# Check with clippy; warnings are errors
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# Run all tests, those against real control planes included; arguments go to `cargo test`
test *args:
    cargo test {{args}}

# Kill the controller at every write, and have every event go wrong, of every scenario: most of an hour
sweep:
    LINKERD_MC_SWEEP=all cargo test --test it crashes:: -- --nocapture

# Let everything happen at once for so many minutes, and see that nothing is lost and nothing grows
soak minutes="10":
    LINKERD_MC_SOAK_MINUTES={{minutes}} cargo test --test it soak:: -- --ignored --nocapture

# Let target clusters that mean harm do so for so many minutes, after as many without, and see what that does to others
hostile minutes="5":
    LINKERD_MC_HOSTILE_MINUTES={{minutes}} cargo test --release --test it hostile_target:: -- --ignored --nocapture

# Draw docs/modules.md: the modules of src and which uses which
modules:
    LINKERD_MC_DRAW=1 cargo test --test layering drawing

# Write docs/reference anew: commands, values, labels, conditions and metrics, from the code
reference:
    LINKERD_MC_DRAW=1 cargo test --lib reference
    LINKERD_MC_DRAW=1 cargo test --test docs reference

# Build the documents as a site, into target/site
site:
    cargo run --manifest-path site/Cargo.toml --target-dir target/mdbook

# Change the core in each way that cargo-mutants knows, one at a time, and see that its tests notice
mutants files="src/mirror/**" *args:
    @cargo mutants --version || { echo 'install it with: cargo install cargo-mutants --locked' >&2; exit 1; }
    cargo test --profile mutants --package mirror-core --lib mirror::
    PROPTEST_CASES=300 PROPTEST_MAX_SHRINK_ITERS=0 PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 PROPTEST_RNG_SEED=1 \
        nice -n 19 cargo mutants --file '{{files}}' --test-package mirror-core --baseline skip --timeout 60 {{args}}

# Send requests through real Linkerd proxies, as root, with the programs in $LINKERD_BIN (docs/development.md); arguments choose cases
mesh *args:
    cargo test --test mesh -- {{args}}

# Do so many things at random to the mesh of `just mesh`, and see that no request fails; LINKERD_MC_MESH_SEED repeats a run
mesh-soak operations="100":
    LINKERD_MC_MESH_OPERATIONS={{operations}} cargo test --test mesh -- soak

# Start three linked control planes and show what is mirrored; `-- --once` ends after the table
playground *args:
    cargo run --release --example playground {{args}}

# Record the pictures of the README anew: real runs, so look at them before you commit them
picture:
    cargo build --release --example playground
    cargo run --release --example picture

# Measure the controller against real control planes; `-- --help` tells what can be asked for
bench *args:
    cargo bench --bench mirror {{args}}

# Measure the commands that people wait for, against real control planes
bench-cli *args:
    cargo bench --bench cli {{args}}

# Fuzz a target (kubeconfig, link, exclusions, names, selector, values) for so many seconds
fuzz target seconds="60" *args:
    fuzz/run {{target}} {{seconds}} {{args}}

# Write the completion scripts anew
completions:
    cargo build
    target/debug/linkerd-mc completions bash > completions/linkerd-mc.bash
    target/debug/linkerd-mc completions zsh > completions/_linkerd-mc
    target/debug/linkerd-mc completions fish > completions/linkerd-mc.fish

# All that a change has to pass
ci:
    .ci/run
