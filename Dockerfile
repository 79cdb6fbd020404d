# docker build --build-arg SOURCE_COMMIT="$(git rev-parse HEAD)" --tag hedgerow .
FROM rust:1.95.0-bookworm AS build
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY . .
ARG SOURCE_COMMIT=
ARG SOURCE_DATE_EPOCH=
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package server \
    && strip --strip-all -o /hedgerow target/release/hedgerow \
    && mkdir /data

# The binary needs the C library, and nothing else.
FROM debian:bookworm-slim
COPY --from=build /hedgerow /usr/bin/hedgerow
COPY --from=build --chown=65532:65532 --chmod=700 /data /var/lib/hedgerow
ENV HEDGEROW_LISTEN=0.0.0.0:8000 \
    HEDGEROW_DATA_DIR=/var/lib/hedgerow
VOLUME /var/lib/hedgerow
EXPOSE 8000
USER 65532:65532
# Asks /readyz, with the settings that the server has. A worker needs HEDGEROW_HEALTH_LISTEN for it.
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s --retries=3 CMD ["/usr/bin/hedgerow", "health"]
ENTRYPOINT ["/usr/bin/hedgerow"]
CMD ["serve"]
