# Recipes for developers. `.ci/run` runs fmt, supply-chain, lint, test, long tests and playground, and does not need just.

# Recipes use their arguments as $1, $2 and so on, or through quote(), so that the shell never runs their text as a
# command.
set positional-arguments

# Show the recipes
default:
    @just --list

# Check the format (`cargo fmt --all` fixes it)
fmt:
    cargo fmt --all --check

# Check with clippy; warnings are errors
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# Run all tests but the long ones, against real control planes too; arguments go to `cargo test`
test *args:
    cargo test "$@"

# Run all tests, then the long ones and 1,000 cases of each property; not those of soak, hostile, fleet, requests, sweep and mesh
test-all: test
    RUST_TEST_THREADS=5 cargo test -- --ignored --skip minutes --skip hostile_target::
    cargo test --test it hostile_target:: -- --ignored --skip minutes
    PROPTEST_CASES=1000 cargo test --lib --test hostile_input -- mirror::properties:: random_bytes:: --skip rendered

# Run the tests that need no control plane and no Go: units, properties, hostile input, documents, structure
quick:
    cargo test --lib --test hostile_input --test docs --test layering -- --skip gitops_tools

# Run tests/it against the oldest Kubernetes that is tested: 10 minutes, once 7 more to build it; arguments choose tests
compat *args:
    tests/it/oldest "$@"

# Kill the controller, and commands that change links, at every write, and delay or lose every event: 40 minutes
sweep:
    LINKERD_MC_SWEEP=all cargo test --test it -- crashes:: killed:: --ignored --nocapture --test-threads=1

# Run all kinds of changes and faults at once for some minutes, and check that nothing is lost and memory does not grow
soak minutes="10":
    LINKERD_MC_SOAK_MINUTES={{quote(minutes)}} cargo test --features jemalloc --test it soak:: -- --ignored --nocapture

# Run without and then with hostile target clusters, for some minutes each, and compare the effect on other clusters
hostile minutes="5":
    LINKERD_MC_HOSTILE_MINUTES={{quote(minutes)}} cargo test --release --features jemalloc --test it hostile_target:: -- --ignored --nocapture

# Measure `fleet` with ten control planes, and with fifty clusters for which four control planes stand: minutes
fleet:
    cargo test --release --test it fleet::ten -- fleet::fifty --ignored --nocapture --test-threads 1

# Count the requests of commands with 500 Links and 10,000 mirrors, as docs/performance.md lists them: minutes
requests:
    cargo test --release --test it requests:: -- --ignored --nocapture --test-threads 1

# Make the files of the Helm chart from the templates and values of `install`
chart:
    LINKERD_MC_CHART=1 cargo test --package linkerd-mc-manifests --lib chart

# Generate docs/reference from the code: commands, values, labels, conditions, causes and metrics
reference:
    LINKERD_MC_DRAW=1 cargo test --lib reference
    LINKERD_MC_DRAW=1 cargo test --test docs reference

# Draw docs/pictures/dashboard.svg: the panels of dashboards/grafana.json
dashboard:
    LINKERD_MC_DRAW=1 cargo test --test docs dashboard

# Draw docs/pictures/page*.webp: the page of `dashboard`, in Chromium
page:
    LINKERD_MC_DRAW=1 cargo test --package linkerd-mc-dashboard --lib pictures

# Build the documents as a site in target/site, and test the program that builds it
site:
    cargo test --locked --quiet --manifest-path site/Cargo.toml --target-dir target/mdbook
    cargo run --locked --quiet --manifest-path site/Cargo.toml --target-dir target/mdbook

# Build the container image as an OCI layout in target/image, without a container engine: minutes
image target=(arch() + "-unknown-linux-musl"): (image-binary target)
    rm -rf target/image
    cargo run --quiet --locked --package container-image -- --binary target/{{quote(target)}}/dist/linkerd-mc --layout target/image

# Run the image of `just image` in namespaces of its own, as root, until it has mirrored a Service
image-test target=(arch() + "-unknown-linux-musl"): (image-binary target)
    LINKERD_MC_IMAGE_BINARY="$PWD"/target/{{quote(target)}}/dist/linkerd-mc cargo test --test it image:: -- --include-ignored --nocapture

# Build the static binary of the image; remapped paths make it the same for any folder of the source and of cargo.
# Packed relocations take half a megabyte less in the file and, because all are read at the start, in memory.
[private]
image-binary target:
    packaging/musl {{quote(target)}}
    PATH="$(packaging/auditable):$PATH" \
        RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$PWD=/source -Clink-arg=-Wl,-z,pack-relative-relocs" \
        cargo auditable build --profile dist --locked --target {{quote(target)}} --package linkerd-mc --features jemalloc --bin linkerd-mc

# Change the core in each way that cargo-mutants knows, one at a time, and check that its tests fail
mutants files="crates/mirror-core/src/mirror/**" *args:
    @cargo mutants --version || { echo 'install it with: cargo install cargo-mutants --locked' >&2; exit 1; }
    cargo test --profile mutants --package mirror-core --lib mirror::
    PROPTEST_CASES=300 PROPTEST_MAX_SHRINK_ITERS=0 PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 PROPTEST_RNG_SEED=1 \
        sh -c 'files=$1; shift; exec nice -n 19 cargo mutants --package mirror-core --file "$files" --test-package mirror-core --baseline skip --timeout 60 "$@"' sh "$@"

# Cargo runs as the user. This runner starts only the suite itself as root.
[private]
as-root := if `id -u` == "0" { "" } else { "--config \"target.'cfg(unix)'.runner=['sudo','--preserve-env','env','PATH=$PATH']\"" }

# Send requests through real Linkerd proxies, as root, with the programs in $LINKERD_BIN; arguments choose cases
mesh *args:
    cargo test {{as-root}} --test mesh -- "$@"

# Run random operations on the mesh of `just mesh`, and check that no request fails; LINKERD_MC_MESH_SEED repeats a run
mesh-soak operations="100":
    LINKERD_MC_MESH_OPERATIONS={{quote(operations)}} cargo test {{as-root}} --test mesh -- soak

# Take the programs of `just mesh` out of the images of a version of Linkerd, without a container engine; needs skopeo
linkerd version folder="target/linkerd":
    tests/mesh/linkerd-programs "$@"

# Install what `just linkerd` and `just mesh` need, on Debian and Ubuntu
mesh-packages:
    sudo apt-get update
    sudo apt-get install --yes --no-install-recommends curl iproute2 nftables procps skopeo util-linux

# Start three linked control planes and show what is mirrored; `-- --once` ends after the last step
playground *args:
    cargo run --example playground "$@"

# Record the pictures of the README again; they show real runs, so look at them before you commit them
picture:
    cargo build --example clusters
    cargo run --example picture

# Measure the controller against real control planes; `-- --help` shows the options
bench *args:
    cargo bench --features jemalloc --bench mirror "$@"

# Measure how long commands take, against real control planes
bench-cli *args:
    cargo bench --features jemalloc --bench cli "$@"

# Run kubectl and linkerd-mc side by side with this many kubeconfigs, environments and flags
kubeconfig cases="2000" seed="1":
    LINKERD_MC_KUBECONFIG_CASES={{quote(cases)}} LINKERD_MC_KUBECONFIG_SEED={{quote(seed)}} cargo test --test kubeconfig

# Fuzz a target (kubeconfig, link, exclusions, names, networks, selector, values) for some seconds
fuzz target seconds="60" *args:
    fuzz/run "$@"

# Generate the completion scripts again
completions:
    cargo build
    target/debug/linkerd-mc completions bash > completions/linkerd-mc.bash
    target/debug/linkerd-mc completions zsh > completions/_linkerd-mc
    target/debug/linkerd-mc completions fish > completions/linkerd-mc.fish

# Check licences, versions and sources of all crates, and look up their advisories in the RustSec database on GitHub
deny *checks:
    "$(packaging/tools)/cargo-deny" --config deny.toml --locked check "$@"

# Check what is in a release and what builds it, without advisories: crates, SBOM, notices, workflows, spelling
supply-chain:
    packaging/check

# Lint the workflows of GitHub Actions: their syntax, their scripts and their security
workflows:
    "$(packaging/tools)/actionlint" .github/workflows/*.yml
    "$(packaging/tools)/zizmor" --offline --quiet .github/workflows

# The folder into which recipes write packages
packages := "target/packages"

# Build the program as it is shipped, for this machine, with the list of its crates embedded: minutes
dist:
    PATH="$(packaging/auditable):$PATH" cargo auditable build --profile dist --locked --package linkerd-mc --features jemalloc --bin linkerd-mc
    packaging/audited target/dist/linkerd-mc

# Build the command line for Windows, with mingw-w64, as it is shipped: minutes
windows:
    packaging/windows
    PATH="$(packaging/auditable):$PATH" cargo auditable build --profile dist --locked --target x86_64-pc-windows-gnu --package linkerd-mc --bin linkerd-mc

# Check the command line for Windows with clippy; warnings are errors
lint-windows:
    packaging/windows
    cargo clippy --target x86_64-pc-windows-gnu --bin linkerd-mc -- -D warnings

# Write the software bill of materials (CycloneDX)
sbom:
    mkdir -p {{packages}}
    "$(packaging/tools)/python" packaging/sbom.py > {{packages}}/linkerd-mc.cdx.json

# Write the licences of all crates in the program
notices:
    mkdir -p {{packages}}
    python3 packaging/notices.py > {{packages}}/THIRD-PARTY-NOTICES

# Pack an archive for a platform such as linux-amd64; set `runnable` to a build that runs here if `binary` does not
archive platform binary="target/dist/linkerd-mc" runnable=binary:
    packaging/archive {{quote(binary)}} {{quote(platform)}} {{packages}} {{quote(runnable)}}

# Pack an archive for each folder binary-PLATFORM in a folder, as the release workflow downloads them
archives binaries:
    packaging/archives {{quote(binaries)}} {{packages}}

# Pack a Debian package for this machine's architecture; $MAINTAINER is its maintainer
deb binary="target/dist/linkerd-mc":
    packaging/deb {{quote(binary)}} {{packages}}

# Pack the Helm chart; needs Helm
pack-chart:
    helm package charts/linkerd-mc --destination target/chart

# Write the checksums of all packages, and the Homebrew formula and the krew manifest with them
checksums version repository:
    cd {{packages}} && sha256sum -- *.tar.gz *.deb linkerd-mc.cdx.json THIRD-PARTY-NOTICES > SHA256SUMS
    packaging/fill packaging/homebrew.rb.in {{quote(version)}} {{quote(repository)}} {{packages}}/SHA256SUMS > {{packages}}/linkerd-mc.rb
    packaging/fill packaging/krew.yaml.in {{quote(version)}} {{quote(repository)}} {{packages}}/SHA256SUMS > {{packages}}/krew.yaml

# The release workflow runs the recipes below. Most of them need GitHub or a registry, and the identity of the workflow.

# Check that Cargo.toml has this version, and print its changes from CHANGELOG.md
changes version:
    @packaging/changes "$@"

# Log in to a registry, with the password in $PASSWORD
login registry user:
    @printenv PASSWORD | docker login --username {{quote(user)}} --password-stdin {{quote(registry)}}

# Push the image of each architecture, a folder that `just image` wrote, as one image; print its digest
publish-image reference +layouts:
    @packaging/publish-image "$@"

# Push the chart that `just pack-chart` packed; print its digest
publish-chart repository version:
    @packaging/publish-chart "$@"

# Sign an image or a chart by its digest, with the identity of the workflow that runs this
sign-image reference:
    cosign sign --yes "$@"

# Sign the checksums of all packages
sign-packages:
    cosign sign-blob --yes --bundle {{packages}}/SHA256SUMS.sigstore.json {{packages}}/SHA256SUMS

# Publish all packages as a release of GitHub
publish version:
    packaging/changes {{quote(version)}} > target/changes.md
    gh release create {{quote("v" + version)}} --verify-tag --title {{quote("v" + version)}} --notes-file target/changes.md {{packages}}/*

# Run everything that a change has to pass
ci:
    .ci/run
