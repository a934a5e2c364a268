import { afterAll, beforeAll, expect, test } from "vitest";
import { syncVault } from "../../src/platforms/sync_vault.ts";
import { decodeDelegationCert, delegationSignBytes } from "../../src/protocol/documents/certificate.ts";
import { verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import { decodeRevocationList, verifyRevocationList } from "../../src/protocol/statements/revocation_list.ts";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { createHome, readIdentity, startVault, type TestVault, type VaultHome } from "../keyvault/fixture.ts";
import { vaultForApi } from "../keyvault/for_api.ts";
import { startApi, type TestApi } from "../support/api.ts";
import {
  approve,
  createAgent,
  delegated,
  errorCode,
  registerPlatform,
  selfRequest,
} from "../support/platform_world.ts";

let home: VaultHome;
let vault: TestVault;
let client: VaultClient;
let api: TestApi;

/** After a restart of the vault, `connect` makes the client use the vault's new port. */
beforeAll(async () => {
  home = await createHome();
  vault = await startVault(home);
  connect();
  api = await startApi({ vault: vaultForApi(() => client) });
});

afterAll(async () => {
  await api.stop();
  await client.close();
  await vault.close();
});

function connect(): void {
  client = createVaultClient({ url: vault.url, ...readIdentity(home, "api") });
  if (api !== undefined) vault.clock.at = api.clock.now();
}

test("the vault signs a certificate with the key that was created at onboarding", async () => {
  const { person, agentId, certId } = await delegated(api);
  const { body } = await person.client.get(`/v1/service/delegations/${certId}`);
  const certificate = decodeDelegationCert(Buffer.from(JSON.stringify(body.cert_json)));
  expect(certificate).toMatchObject({ issuer_id: person.humanId, subject_id: agentId, scope: ["data:read"] });
  expect(
    await verifyHybrid(certificate.issuer_pub_key, delegationSignBytes(certificate), certificate.signature),
  ).toBe(true);
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("the vault signs a new revocation list with the root key for every revocation", async () => {
  const { person, certId } = await delegated(api);
  const root = await client.getKey({ tenant: person.accountId, keyId: person.humanId });
  const path = `/v1/service/revocations/${person.humanId}`;
  let updatedAt = 0;
  for (const revoked of [[], [certId]]) {
    const answer = await api.client().get(path);
    const list = decodeRevocationList(Buffer.from(answer.text));
    expect(list).toMatchObject({ issuer_id: person.humanId, revoked_certs: revoked });
    expect(await verifyRevocationList(list, root.public_key)).toBeUndefined();
    expect(list.updated_at).toBeGreaterThan(updatedAt);
    updatedAt = list.updated_at;
    expect((await api.client().get(path)).text).toBe(answer.text);
    await person.client.post(`/v1/service/delegations/${certId}/revoke`, {});
  }
  const signed = await vault.home.sql(
    "select from audit where key_id = $1 and statement = 'revocation_list' and outcome = 'granted'",
    [person.humanId],
  );
  expect(signed).toHaveLength(2);
});

test("a reduced ceiling and the deletion of an agent change the agent's key in the vault", async () => {
  const { person, platform, agentId } = await delegated(api);
  const key = { tenant: person.accountId, keyId: agentId };
  expect(await client.getKey(key)).toMatchObject({
    state: "active",
    ceiling: ["data:read", "data:share", "payments:send", "custom:orders:refund"],
  });
  for (const scopes of [["data:*"], ["data:share"]]) {
    await person.client.call("PATCH", `/v1/service/platforms/${platform.platformId}`, {
      body: { default_allowed_scopes: scopes },
    });
    expect((await client.getKey(key)).ceiling).toEqual(scopes);
  }
  for (let time = 0; time < 2; time += 1) {
    await person.client.call("DELETE", `/v1/service/connections/${platform.connectionId}`);
    expect((await client.getKey(key)).state).toBe("disabled");
  }
  expect(await api.db("agents").whereNotNull("vault_due_at")).toEqual([]);
});

test("the vault checks an approval against the agent's own ceiling, even if the API does not", async () => {
  const { person, platform, agentId } = await delegated(api);
  const requestId = await selfRequest(person, platform.connectionId);
  await client.shrinkCeiling({ tenant: person.accountId, keyId: agentId }, ["data:read"]);
  const answer = await approve(person, requestId, ["data:share"]);
  expect([answer.status, errorCode(answer)]).toEqual([503, "vault_unavailable"]);
  expect((await approve(person, requestId, ["data:read"])).status).toBe(200);
});

test("repeated calls with one idempotency key create one key in the vault, even if the first answer is lost", async () => {
  const platform = await registerPlatform(await api.person());
  const create = () =>
    api
      .client()
      .post(
        `/v1/service/connections/${platform.connectionId}/agents`,
        { name: "bot", agent_type: "robot" },
        { headers: { "x-service-api-key": platform.apiKey, "idempotency-key": "one" } },
      );
  const first = await create();
  await api.db("idempotency_keys").delete();
  const again = await create();
  expect(again.body).toEqual(first.body);
});

test("an unavailable vault prevents approvals and new agents, and disables keys of deleted agents once it is back", async () => {
  const { person, platform, agentId } = await delegated(api);
  const requestId = await selfRequest(person, platform.connectionId);
  const doomed = await createAgent(api.client(), platform);
  await vault.stop();
  const answer = await approve(person, requestId, ["data:read"]);
  expect([answer.status, errorCode(answer)]).toEqual([503, "vault_unavailable"]);
  const headers = { "x-service-api-key": platform.apiKey };
  const path = `/v1/service/connections/${platform.connectionId}/agents`;
  const created = await api.client().post(path, { name: "b", agent_type: "robot" }, { headers });
  expect(errorCode(created)).toBe("vault_unavailable");
  expect((await api.client().call("DELETE", `${path}/${doomed}`, { headers })).status).toBe(200);
  await client.close();

  vault = await startVault(home);
  connect();
  expect(await syncVault(api)).toBe(1);
  const key = (id: string) => client.getKey({ tenant: person.accountId, keyId: id });
  expect([(await key(doomed)).state, (await key(agentId)).state]).toEqual(["disabled", "active"]);
  expect((await approve(person, requestId, ["data:read"])).status).toBe(200);
});
