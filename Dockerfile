# The image that `linkerd-mc install` asks for: the binary, CA certificates and libc. No shell, no root.
#
#   docker build --build-arg COMMIT=$(git rev-parse --short=12 HEAD) --tag registry.example.com/linkerd-mc:0.1.0 .

FROM rust:1-bookworm AS build
WORKDIR /source
COPY . .
# The commit, for `--version` and the metric linkerd_mc_build_info: .git is not copied.
ARG COMMIT
RUN LINKERD_MC_COMMIT=${COMMIT} cargo build --profile dist --locked --package linkerd-mc --bin linkerd-mc

# The same Debian as above, for its libc.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /source/target/dist/linkerd-mc /linkerd-mc
USER 65532:65532
ENTRYPOINT ["/linkerd-mc"]
