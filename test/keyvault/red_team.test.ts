import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { CreatedKey } from "../../keyvault/keys/create.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import {
  generateSeeds,
  type HybridPublicKey,
  type HybridSignature,
  importSeeds,
  keyId,
  publicKeyOf,
  verifyHybrid,
} from "../../src/protocol/keys/hybrid.ts";
import { codeOf, startVault, type TestVault } from "./fixture.ts";
import { type Answer, call } from "./http/caller_support.ts";
import { type Change, delegationRequest, subject } from "./sign/delegation_request.ts";

/*
 * Every attempt uses the certificate that `keyvault init` created for the API, over the network. The file
 * http/access.test.ts covers roles, TLS 1.2 and rejected certificates. The file http/calls.test.ts covers
 * malformed or oversized bodies.
 */

let vault: TestVault;
let root: CreatedKey;
let agent: CreatedKey;
let foreignRoot: CreatedKey;
let foreignAgent: CreatedKey;

beforeAll(async () => {
  vault = await startVault();
  const bounded = { tenant: "acc-1", ceiling: ["data:read", "data:write"] };
  root = await vault.makeKey({ ...bounded, purpose: "account_root", label: "root" });
  agent = await vault.makeAgent("acc-1", bounded.ceiling);
  foreignRoot = await vault.makeKey({ tenant: "acc-2", purpose: "account_root", label: "root" });
  foreignAgent = await vault.makeAgent("acc-2", []);
});
afterAll(() => vault.close());
const head = () => vault.head();
const now = () => vault.now();
const serviceId = () => vault.vault.service.keyId;
const get = (path: string): Promise<Answer> => vault.get(path, vault.api);
const post = (path: string, body: unknown, headers = {}) => vault.post(path, body, vault.api, headers);
const sign = (kind: string, keyId: string, body: object) => post(`/v1/keys/${keyId}/sign/${kind}`, body);
const createKey = (body: object) => post("/v1/keys", body, { "idempotency-key": randomUUID() });
const challenge = (tenant?: string) => vault.challenge(tenant);

type Order = Change & { issuer?: CreatedKey };

function delegation({ issuer = root, approval, ...change }: Order = {}) {
  const approved = { ceiling: ["data:*", "files:read"], ...approval };
  return delegationRequest(issuer, agent, now(), { ...change, approval: approved });
}

const revocationList = (...revoked_certs: string[]) => ({
  tenant: "acc-1",
  updated_at: now(),
  revoked_certs,
  expires_at: revoked_certs.map(() => 0),
});

const delegate = (change: Order = {}) =>
  sign("delegation", (change.issuer ?? root).key_id, delegation(change));

test("the API may sign challenges and delegations, so the attempts below do not fail for lack of access", async () => {
  expect((await sign("challenge", agent.key_id, challenge())).status).toBe(200);
  expect((await delegate()).status).toBe(200);
});

test("the API cannot export or list keys", async () => {
  for (const path of ["/v1/keys", "/v1/keys?tenant=acc-1", "/v1/status", "/v1/audit"]) {
    expect(codeOf(await get(path)), path).toBe("forbidden");
  }
  const shown = JSON.stringify((await get(`/v1/keys/${agent.key_id}?tenant=acc-1`)).body);
  const [row] = await vault.home.sql<{ wrapped_seeds: Buffer }>(
    "select wrapped_seeds from keys where key_id = $1",
    [agent.key_id],
  );
  expect(shown).toContain(agent.public_key.ed25519);
  expect(shown).not.toContain(row!.wrapped_seeds.toString("base64").slice(0, 40));
  expect(shown).not.toMatch(/seed|wrapped|request_key|data_key/);
  expect(codeOf(await get(`/v1/keys/${agent.key_id}`))).toBe("invalid_request");
  expect(codeOf(await get(`/v1/keys/${serviceId()}?tenant=vault`))).toBe("invalid_request");
});

test("the API cannot use another tenant's key in any call, nor distinguish it from a missing key", async () => {
  const absent = "0".repeat(32);
  const tries: ((foreign: string) => Promise<Answer>)[] = [
    (id) => get(`/v1/keys/${id}?tenant=acc-1`),
    (id) => sign("challenge", id, challenge()),
    (id) => sign("delegation", id, delegation({ certificate: { issuer_id: id } })),
    (id) => sign("revocation-list", id, revocationList("cert-1")),
    (id) => post(`/v1/keys/${id}/disable`, { tenant: "acc-1" }),
    (id) => post(`/v1/keys/${id}/ceiling`, { tenant: "acc-1", ceiling: [] }),
  ];
  for (const attempt of tries) {
    const unknown = await attempt(absent);
    expect(codeOf(unknown)).toBe("key_not_found");
    for (const { key_id } of [foreignRoot, foreignAgent]) expect(await attempt(key_id)).toEqual(unknown);
  }
  const strange = publicKeyOf(importSeeds(generateSeeds()));
  for (const approval of [{}, { external_subject: true }]) {
    const stranger = { key_id: keyId(strange), public_key: strange };
    const foreign = await delegate({ certificate: subject(foreignAgent), approval });
    expect(codeOf(foreign)).toBe("policy_violation");
    expect(foreign).toEqual(await delegate({ certificate: subject(stranger), approval }));
  }
  expect(codeOf(await sign("challenge", foreignAgent.key_id, challenge("acc-2")))).toBe(200);
});

test("the API cannot sign for a purpose that the key does not have", async () => {
  const tries: [string, () => Promise<Answer>][] = [
    ["purpose_mismatch", () => sign("challenge", root.key_id, challenge())],
    ["purpose_mismatch", () => delegate({ issuer: agent })],
    ["purpose_mismatch", () => sign("revocation-list", agent.key_id, revocationList("cert-1"))],
    ["invalid_request", () => sign("challenge", serviceId(), challenge("vault"))],
    ["invalid_request", () => sign("delegation", serviceId(), delegation({ tenant: "vault" }))],
    ["key_not_found", () => sign("challenge", serviceId(), challenge())],
    ["key_not_found", () => sign("revocation-list", serviceId(), revocationList("cert-1"))],
    ["invalid_request", () => createKey({ tenant: "acc-1", purpose: "service", label: "mine" })],
    ["invalid_request", () => createKey({ tenant: "vault", purpose: "account_root", label: "mine" })],
  ];
  for (const [code, attempt] of tries) expect(codeOf(await attempt()), String(attempt)).toBe(code);
});

test("the API cannot exceed the ceilings of issuer and subject in a delegation", async () => {
  for (const scope of [["files:read"], ["data:*"], ["data:read", "payments:send"]]) {
    expect(codeOf(await delegate({ certificate: { scope } })), scope.join()).toMatch(
      /policy_violation|invalid_request/,
    );
  }
  for (const { key_id } of [root, agent]) {
    const wider = { tenant: "acc-1", ceiling: ["data:*"] };
    expect(codeOf(await post(`/v1/keys/${key_id}/ceiling`, wider))).toBe("policy_violation");
  }
});

test("the API cannot get a wider ceiling with an additional root key, even after it disables the first root key", async () => {
  const seq = head();
  const order = { tenant: "acc-3", purpose: "account_root", label: "root" };
  const first = await createKey({ ...order, ceiling: ["data:read"] });
  const ceilings = [undefined, ["data:*"], ["data:read", "files:read"]];
  const tryAll = async () => {
    for (const ceiling of ceilings) {
      expect(codeOf(await createKey({ ...order, ...(ceiling && { ceiling }) }))).toBe("policy_violation");
    }
  };
  await tryAll();
  expect((await post(`/v1/keys/${String(first.body.key_id)}/disable`, { tenant: "acc-3" })).status).toBe(200);
  await tryAll();
  expect((await createKey({ ...order, ceiling: ["data:read"] })).status).toBe(200);
  const refused = (await vault.recordsAfter(seq)).filter(({ outcome }) => outcome === "policy_violation");
  expect(refused).toHaveLength(6);
  expect(await vault.home.sql("select from keys where tenant = 'acc-3'")).toHaveLength(2);
});

test("the API cannot create an agent's key without a ceiling", async () => {
  const order = { tenant: "acc-1", purpose: "agent", label: "free" };
  expect(codeOf(await createKey(order))).toBe("invalid_request");
  expect((await createKey({ ...order, ceiling: [] })).status).toBe(200);
});

test("the API cannot delegate to a key that it generated itself", async () => {
  const mine = publicKeyOf(importSeeds(generateSeeds()));
  const certificate = subject({ key_id: keyId(mine), public_key: mine });
  for (const approval of [{}, { external_subject: true }]) {
    expect(codeOf(await delegate({ certificate, approval }))).toBe("policy_violation");
  }
  expect(codeOf(await delegate({ certificate: { subject_pub_key: mine } }))).toBe("invalid_request");
});

test("the API cannot enable or destroy a key", async () => {
  const { key_id } = await vault.makeKey(
    { tenant: "acc-1", purpose: "agent", label: "off" },
    "api:the-off-key",
  );
  for (const action of ["enable", "destroy"]) {
    const answer = await post(`/v1/keys/${key_id}/${action}`, { tenant: "acc-1" });
    expect([403, 404], action).toContain(answer.status);
  }
  await call(`${vault.url}/v1/keys/${key_id}`, vault.api, { method: "DELETE" });
  expect((await sign("challenge", key_id, challenge())).status).toBe(200);
  await post(`/v1/keys/${key_id}/disable`, { tenant: "acc-1" });
  await post(`/v1/keys/${key_id}/enable`, { tenant: "acc-1" });
  expect(codeOf(await sign("challenge", key_id, challenge()))).toBe("key_disabled");
  const again = { tenant: "acc-1", purpose: "agent", label: "off", ceiling: [] };
  const replay = await post("/v1/keys", again, { "idempotency-key": "the-off-key" });
  expect(codeOf(replay)).toBe("idempotency_conflict");
  expect(codeOf(await sign("challenge", key_id, challenge()))).toBe("key_disabled");
  expect(await vault.home.sql("select from keys where key_id = $1", [key_id])).toHaveLength(1);
});

test("the API cannot undo a revocation with a newer list, or get two lists signed for the same time", async () => {
  expect((await sign("revocation-list", root.key_id, revocationList("a", "b"))).status).toBe(200);
  vault.clock.move(1);
  const lists = [
    revocationList("a"),
    revocationList(),
    { ...revocationList("a"), expires_at: [1] },
    { ...revocationList("a", "b", "c"), updated_at: now() - 1 },
    { ...revocationList("a", "b"), updated_at: now() - 2 },
  ];
  for (const list of lists) {
    expect(codeOf(await sign("revocation-list", root.key_id, list))).toBe("policy_violation");
  }
  expect((await sign("revocation-list", root.key_id, revocationList("c", "b", "a"))).status).toBe(200);
});

test("the vault signs no rotation, push, receipt or checkpoint for anyone", async () => {
  const zeros = Buffer.alloc(32).toString("base64");
  const statements = {
    "key-rotation": { tenant: "acc-1", new_id: agent.key_id, rotated_at: now(), reason: "routine" },
    "revocation-push": { tenant: "acc-1", seq_no: 1, entries: ["cert-1"], pushed_at: now() },
    receipt: {
      ...{ bundle_hash: zeros, decision: "authorized_agent", prev_hash: zeros },
      ...{ verified_at: now(), verifier_id: "verifier-1" },
    },
    checkpoint: { origin: "audit.example", size: 2 ** 53 - 1, root: zeros },
  };
  for (const [kind, body] of Object.entries(statements)) {
    for (const key of [root.key_id, agent.key_id, serviceId()]) {
      for (const client of [vault.api, vault.admin]) {
        const before = head();
        const answer = await vault.post(`/v1/keys/${key}/sign/${kind}`, body, client);
        expect(codeOf(answer), kind).toBe("forbidden");
        const rows = await vault.home.sql("select outcome, detail from audit where seq > $1", [before]);
        expect(rows).toEqual([{ outcome: "forbidden", detail: { call: `POST /v1/keys/:id/sign/${kind}` } }]);
      }
    }
  }
});

test("the API cannot avoid a record, because every attempt is in the chain before the API gets the response", async () => {
  const tries: [() => Promise<Answer>, string][] = [
    [() => sign("challenge", agent.key_id, challenge()), "granted"],
    [() => sign("challenge", foreignAgent.key_id, challenge()), "key_not_found"],
    [() => sign("challenge", root.key_id, challenge()), "purpose_mismatch"],
    [() => sign("challenge", agent.key_id, { ...challenge(), challenge_at: now() - 61 }), "policy_violation"],
    [() => sign("challenge", agent.key_id, { bytes: "x" }), "invalid_request"],
    [() => delegate({ certificate: { scope: ["files:read"] } }), "policy_violation"],
    [() => createKey({ tenant: "acc-1", purpose: "service", label: "mine" }), "invalid_request"],
    [
      () => post(`/v1/keys/${agent.key_id}/ceiling`, { tenant: "acc-1", ceiling: ["data:*"] }),
      "policy_violation",
    ],
    [() => get("/v1/keys"), "forbidden"],
  ];
  for (const [attempt, outcome] of tries) {
    const before = head();
    await attempt();
    const rows = await vault.home.sql("select outcome, role, caller from audit where seq > $1", [before]);
    expect(rows).toEqual([{ outcome, role: "api", caller: "api" }]);
  }
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("the API cannot get one half of a hybrid signature, even if the token's process dies", async () => {
  for (const extra of [{ halves: ["ed25519"] }, { algorithm: "ed25519" }]) {
    expect(codeOf(await sign("challenge", agent.key_id, { ...challenge(), ...extra }))).toBe(
      "invalid_request",
    );
  }
  vault.vault.dataKeys.clear();
  const flight = Array.from({ length: 24 }, async (_, index) => {
    if (index === 12) process.kill(vault.vault.token.pid()!, "SIGKILL");
    const binding = challenge();
    return { binding, answer: await sign("challenge", agent.key_id, binding) };
  });
  for (const { binding, answer } of await Promise.all(flight)) {
    if (answer.status !== 200) {
      expect(answer).toMatchObject({ status: 503, body: { error: { code: "token_unavailable" } } });
      expect(Object.keys(answer.body)).toEqual(["error"]);
      continue;
    }
    const signature = answer.body.challenge_sig as HybridSignature;
    const bytes = challengeSignBytes({ challenge: binding.challenge, challenge_at: binding.challenge_at });
    expect(await verifyHybrid(answer.body.agent_pub_key as HybridPublicKey, bytes, signature)).toBe(true);
  }
  await expect
    .poll(async () => (await sign("challenge", agent.key_id, challenge())).status, { timeout: 10_000 })
    .toBe(200);
});
