# syntax=docker/dockerfile:1
# The one image of all three programs; the charts name the program. As image_from_binaries in scripts/lib/images.sh makes it
# without a builder: the programs in /usr/local/bin, an ordinary user, public certificates, and nothing else that runs.
#
#   docker build -t REGISTRY/argosy:VERSION --build-arg ARGOSY_COMMIT="$(git rev-parse --short HEAD)" .
#   docker build -t REGISTRY/argosy:VERSION --build-arg FEATURES=otel .    with traces

# The compiler of rust-toolchain.toml, on the Debian whose C library the second stage has.
FROM rust:1.95.0-bookworm AS build
ARG FEATURES=
# Told by `argosy version`; without, it tells the version alone.
ARG ARGOSY_COMMIT
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package argosy --features "$FEATURES" --bins && \
    install -D -t /out target/release/argosy-controller target/release/argosy-agent target/release/argosy

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /out/ /usr/local/bin/
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/usr/local/bin/argosy-controller"]
