# The same image as that of `just image`, for container engines: a static binary, CA certificates, and the user that it
# runs as. No shell, no root.
#
#   docker build --build-arg COMMIT=$(git rev-parse --short=12 HEAD) --tag registry.example.com/linkerd-mc:0.1.0 .

# The digest is that of the index of all architectures, and the same as in .github/workflows/release.yml. Nothing of this
# image is in ours, but it compiles what is.
FROM rust:1.95.0-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1 AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends musl-tools \
 && rustup target add "$(uname -m)-unknown-linux-musl"
WORKDIR /source
COPY . .
# The commit, for `--version` and the metric linkerd_mc_build_info: .git is not copied.
ARG COMMIT
RUN target="$(uname -m)-unknown-linux-musl" \
 && LINKERD_MC_COMMIT=${COMMIT} cargo build --profile dist --locked --target "$target" --package linkerd-mc --features jemalloc --bin linkerd-mc \
 && cargo run --locked --package container-image -- --binary "target/$target/dist/linkerd-mc" --root /image

FROM scratch
COPY --from=build /image /
USER 65532:65532
ENTRYPOINT ["/linkerd-mc"]
