import { randomUUID } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { delegationSignBytes } from "../../src/protocol/documents/certificate.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { readCredentials } from "../../src/vault/credentials.ts";
import type { TransportSettings } from "../../src/vault/transport.ts";
import { issueIdentity, readIdentity, startVault, type TestVault } from "../keyvault/fixture.ts";
import { until } from "../support/process.ts";

let vault: TestVault;
let client: VaultClient;
const others: { close(): Promise<unknown> }[] = [];

beforeAll(async () => {
  vault = await startVault();
  client = createVaultClient({ url: vault.url, ...readIdentity(vault.home, "api") });
});
afterAll(async () => {
  await client.close();
  await vault.close();
});
afterEach(async () => {
  for (const other of others.splice(0)) await other.close();
});

const now = () => Math.floor(vault.clock.now().getTime() / 1000);
const bytes = (fill: number) => Buffer.alloc(32, fill).toString("base64");

async function makePair(tenant = "acc-1") {
  const root = await client.createKey({ tenant, purpose: "account_root", label: "root" }, randomUUID());
  const agent = await client.createKey(
    { tenant, purpose: "agent", label: "agent", ceiling: ["data:*"] },
    randomUUID(),
  );
  const certificate = {
    cert_id: `cert-${randomUUID()}`,
    version: 1,
    issuer_id: root.key_id,
    subject_id: agent.key_id,
    subject_pub_key: agent.public_key,
    scope: ["data:read"],
    constraints: [{ type: "time_window" as const, start: "08:00", end: "18:00", tz: "Europe/Zurich" }],
    issued_at: now(),
    expires_at: now() + 3600,
  };
  const approval = { ceiling: ["data:read"], request_id: randomUUID(), approved_by: randomUUID() };
  return { root, agent, certificate, approval };
}

async function clientOf(
  answer: Parameters<typeof createServer>[1],
  settings: Partial<TransportSettings> = {},
): Promise<VaultClient> {
  const { ca, cert, key } = readIdentity(vault.home, "server");
  const server: Server = createServer({ cert, key }, answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const own = createVaultClient({
    url,
    ...readIdentity(vault.home, "api"),
    ca,
    deadlineMs: 10_000,
    ...settings,
  });
  others.push(own, { close: async () => server.close().closeAllConnections() });
  return own;
}

const answering = (status: number, body: string) =>
  clientOf((_, response) => response.writeHead(status, { "content-type": "application/json" }).end(body));

test("the vault client creates keys, signs with them and disables them over one pool of kept-alive connections", async () => {
  await client.health();
  const { root, agent, certificate, approval } = await makePair();
  const signed = await client.signDelegation({ tenant: "acc-1", keyId: root.key_id }, certificate, approval);
  expect(await verifyHybrid(root.public_key, delegationSignBytes(signed), signed.signature)).toBe(true);

  const key = { tenant: "acc-1", keyId: agent.key_id };
  const binding = {
    challenge: bytes(1),
    challenge_at: now(),
    session_context: bytes(2),
    stream_id: bytes(3),
    stream_seq: 1,
  };
  for (const asked of [binding, { challenge: bytes(1), challenge_at: now() }]) {
    const answer = await client.signChallenge(key, asked);
    expect(await verifyHybrid(agent.public_key, challengeSignBytes(asked), answer.challenge_sig)).toBe(true);
  }
  await client.shrinkCeiling(key, ["data:read"]);
  expect(await client.getKey(key)).toMatchObject({
    key_id: agent.key_id,
    ceiling: ["data:read"],
    state: "active",
  });
  await client.disableKey(key);
  await expect(client.signChallenge(key, binding)).rejects.toMatchObject({
    name: "VaultRefused",
    code: "key_disabled",
    status: 409,
  });
});

test("the vault client reports the code of a refusal", async () => {
  const { root, agent, certificate, approval } = await makePair();
  const key = { tenant: "acc-1", keyId: root.key_id };
  const refusals: [() => Promise<unknown>, string][] = [
    [() => client.signDelegation(key, certificate, { ...approval, ceiling: [] }), "policy_violation"],
    [() => client.signDelegation({ ...key, tenant: "acc-2" }, certificate, approval), "key_not_found"],
    [
      () =>
        client.signDelegation(
          { ...key, keyId: agent.key_id },
          { ...certificate, issuer_id: agent.key_id },
          approval,
        ),
      "purpose_mismatch",
    ],
    [() => client.signDelegation(key, { ...certificate, version: 2 }, approval), "invalid_request"],
    [() => client.getKey({ tenant: "acc-1", keyId: "../status" }), "key_not_found"],
    [
      () => client.shrinkCeiling({ tenant: "acc-1", keyId: agent.key_id }, ["files:read"]),
      "policy_violation",
    ],
  ];
  for (const [call, code] of refusals) {
    await expect(call()).rejects.toMatchObject({ name: "VaultRefused", code });
  }
  await client.createKey({ tenant: "acc-1", purpose: "agent", label: "one", ceiling: [] }, "the-same-name");
  await expect(
    client.createKey({ tenant: "acc-1", purpose: "agent", label: "two", ceiling: [] }, "the-same-name"),
  ).rejects.toMatchObject({
    code: "idempotency_conflict",
  });
});

test.each([500, 502, 503])(
  "the vault client reports status %d as VaultUnavailable with the vault's code",
  async (status) => {
    const own = await answering(
      status,
      JSON.stringify({ error: { code: "sealed", message: "The vault is sealed", status } }),
    );
    await expect(own.health()).rejects.toMatchObject({ name: "VaultUnavailable", code: "sealed" });
  },
);

test.each([
  ["7", 7],
  ["0", 0],
  ["soon", undefined],
  ["-1", undefined],
  ["1.5", undefined],
  [undefined, undefined],
])(
  "the vault client reports too many calls as VaultRefused with the seconds from Retry-After (%s)",
  async (header, seconds) => {
    const own = await clientOf((_, response) =>
      response
        .writeHead(429, header === undefined ? {} : { "retry-after": header })
        .end(JSON.stringify({ error: { code: "rate_limited", message: "Too many calls", status: 429 } })),
    );
    const order = { tenant: "acc-1", purpose: "agent", label: "agent", ceiling: ["data:read"] } as const;
    const refusal = await own
      .createKey({ ...order, ceiling: [...order.ceiling] }, randomUUID())
      .catch((error) => error);
    expect(refusal).toMatchObject({ name: "VaultRefused", code: "rate_limited", status: 429 });
    expect(refusal.retryAfterSeconds).toBe(seconds);
  },
);

test.each([
  ["no JSON", 200, "<html>"],
  ["an error without a body", 503, ""],
  ["a refusal that is not JSON", 403, "no"],
])("the vault client reports a response with %s as VaultUnavailable", async (_, status, body) => {
  await expect((await answering(status, body)).health()).rejects.toMatchObject({ name: "VaultUnavailable" });
});

test("the vault client reports VaultUnavailable if the vault misses the deadline or aborts its response", async () => {
  const silent = await clientOf(() => {}, { deadlineMs: 300 });
  await expect(silent.health()).rejects.toMatchObject({ name: "VaultUnavailable", code: "unreachable" });
  const breaking = await clientOf((_, response) => {
    response.writeHead(200, { "content-length": "100" });
    response.write("{");
    setTimeout(() => response.destroy(), 20);
  });
  await expect(breaking.health()).rejects.toMatchObject({ name: "VaultUnavailable", code: "unreachable" });
});

test("the vault client waits 5 s for a response by default", async () => {
  const deadlines = vi.spyOn(AbortSignal, "timeout");
  try {
    await client.health();
    expect(deadlines.mock.calls).toEqual([[5_000]]);
  } finally {
    deadlines.mockRestore();
  }
});

test.each([
  ["16 by default", {}, 16],
  ["as many as its setting", { connections: 3 }, 3],
])("the vault client opens at most this number of connections: %s", async (_, settings, most) => {
  const waiting: ServerResponse[] = [];
  const own = await clientOf((_, response) => void waiting.push(response), settings);
  const calls = Array.from({ length: most + 4 }, () => own.health());
  await until(`${most} calls`, () => waiting.length === most);
  await new Promise((resolve) => setImmediate(resolve));
  expect(waiting).toHaveLength(most);
  for (let answered = 0; answered < calls.length; answered += 1) {
    await until("a call", () => waiting.length > answered);
    waiting[answered]?.end("{}");
  }
  await Promise.all(calls);
});

test("the vault client reports VaultUnavailable if nothing listens at the address", async () => {
  const own = createVaultClient({ url: "https://localhost:1", ...readIdentity(vault.home, "api") });
  others.push(own);
  await expect(own.health()).rejects.toMatchObject({ name: "VaultUnavailable", code: "unreachable" });
});

test("the vault client rejects a server without TLS 1.3, and a certificate with a different issuer or name", async () => {
  const asApi = readIdentity(vault.home, "api");
  const stranger = await issueIdentity(vault.home, { kind: "server", names: ["elsewhere.example"] });
  const client = await issueIdentity(vault.home, { kind: "client", role: "admin", name: "one" });
  const server = readIdentity(vault.home, "server");
  const servers: [{ cert: string; key: string; maxVersion?: "TLSv1.2" }, string][] = [
    [stranger, asApi.ca],
    [client, asApi.ca],
    [server, stranger.cert],
    [{ ...server, maxVersion: "TLSv1.2" }, asApi.ca],
  ];
  for (const [options, ca] of servers) {
    let reached = false;
    const listening = createServer(
      { cert: options.cert, key: options.key, ...(options.maxVersion && { maxVersion: options.maxVersion }) },
      (_, response) => {
        reached = true;
        response.end("{}");
      },
    );
    await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
    const own = createVaultClient({
      url: `https://127.0.0.1:${(listening.address() as AddressInfo).port}`,
      ...asApi,
      ca,
    });
    others.push(own, { close: async () => listening.close().closeAllConnections() });
    await expect(own.health()).rejects.toMatchObject({ name: "VaultUnavailable" });
    expect(reached).toBe(false);
  }
});

test("the vault client reloads changed certificate files during calls, but not while certificate and key do not match", async () => {
  const folder = await mkdtemp(join(tmpdir(), "vault-client-"));
  const files = { ca: join(folder, "ca.pem"), cert: join(folder, "api.pem"), key: join(folder, "api.key") };
  const issue = (name: string) => issueIdentity(vault.home, { kind: "client", role: "api", name });
  const write = async (identity: { ca: string; cert: string; key: string }) => {
    await writeFile(files.ca, identity.ca);
    await writeFile(files.cert, identity.cert);
    await writeFile(files.key, identity.key);
  };
  const first = await issue("first");
  await write(first);
  const own = createVaultClient({
    url: vault.url,
    ...(await readCredentials(files)),
    files,
    lookEveryMs: 20,
  });
  others.push(own, { close: () => rm(folder, { recursive: true }) });
  const { key_id } = await own.createKey(
    { tenant: "acc-watch", purpose: "agent", label: "agent", ceiling: [] },
    randomUUID(),
  );
  const sign = () =>
    own.signChallenge({ tenant: "acc-watch", keyId: key_id }, { challenge: bytes(1), challenge_at: now() });
  const callers = async () =>
    (
      await vault.home.sql<{ caller: string }>("select distinct caller from audit where key_id = $1", [
        key_id,
      ])
    ).map(({ caller }) => caller);
  await sign();
  const second = await issue("second");
  await writeFile(files.cert, second.cert);
  await new Promise((resolve) => setTimeout(resolve, 200));
  await sign();
  expect(await callers()).toEqual(["first"]);
  await writeFile(files.key, second.key);
  await expect
    .poll(
      async () => {
        await Promise.all([sign(), sign(), sign()]);
        return (await callers()).sort();
      },
      { timeout: 10_000 },
    )
    .toEqual(["first", "second"]);
});
