import { afterAll, beforeAll, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { LISTED_AFTER_END_SECONDS } from "../../src/delegations/revocation_lists/revocation_state.ts";
import {
  decodeRevocationList,
  MAX_CERTS_PER_REVOCATION_LIST,
  verifyRevocationList,
} from "../../src/protocol/statements/revocation_list.ts";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { readIdentity, startVault, type TestVault } from "../keyvault/fixture.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { createFakeVault } from "../support/fake_vault.ts";
import { addRevoked } from "../support/mass_revocation.ts";
import { delegated, errorCode } from "../support/platform_world.ts";

/** Uses two replicas of the API, one Postgres and the real vault. */

let vault: TestVault;
let client: VaultClient;
let api: TestApi;
let replica: TestApi;

beforeAll(async () => {
  vault = await startVault();
  client = createVaultClient({ url: vault.url, ...readIdentity(vault.home, "api") });
  const { createKey, signDelegation, statements } = client;
  const parts = { ...createFakeVault(), createKey, signDelegation, statements };
  api = await startApi({ vault: parts });
  replica = await startApi({ shares: api, vault: parts });
  vault.clock.at = api.clock.now();
});
afterAll(async () => {
  await replica.stop();
  await api.stop();
  await client.close();
  await vault.close();
});

const read = (humanId: string, from = api) => from.client().get(`/v1/service/revocations/${humanId}`);
const signed = async (humanId: string) => {
  const rows = await vault.home.sql(
    "select from audit where key_id = $1 and statement = 'revocation_list' and outcome = 'granted'",
    [humanId],
  );
  return rows.length;
};
const revokedOf = (accountId: string): Promise<string[]> =>
  api
    .db("certificates")
    .where({ account_id: accountId, status: "revoked" })
    .orderBy("cert_id")
    .pluck("cert_id");

test("revocation lists contain all revoked certificates up to the maximum, are signed once each, and fail beyond the maximum", {
  timeout: 180_000,
}, async () => {
  const { person, certId } = await delegated(api);
  const { humanId, accountId } = person;
  const { public_key: publicKey } = await client.getKey({ tenant: accountId, keyId: humanId });
  const end = addSeconds(api.clock.now(), 60);
  let have = 0;
  let updatedAt = 0;
  for (const [index, count] of [0, 1, 1_000, 1_001, MAX_CERTS_PER_REVOCATION_LIST].entries()) {
    await addRevoked(api.db, certId, count - have);
    if (count === 1) await api.db("certificates").where({ status: "revoked" }).update({ expires_at: end });
    have = count;
    const answer = await read(humanId);
    expect(answer.status).toBe(200);
    const bytes = Buffer.from(answer.text);
    const list = decodeRevocationList(bytes, { maxBytes: bytes.length });
    expect(list.revoked_certs.length).toBe(count);
    expect(list.revoked_certs).toEqual(await revokedOf(accountId));
    expect(await verifyRevocationList(list, publicKey)).toBeUndefined();
    expect(list.updated_at).toBeGreaterThan(updatedAt);
    updatedAt = list.updated_at;
    for (const from of [api, replica, replica]) expect((await read(humanId, from)).text).toBe(answer.text);
    expect(await signed(humanId)).toBe(index + 1);
  }
  await addRevoked(api.db, certId, 1);
  for (const from of [api, replica]) {
    const answer = await read(humanId, from);
    expect([answer.status, errorCode(answer)]).toEqual([503, "too_many_revoked"]);
  }
  const [ended] = await api.db("certificates").where({ expires_at: end, status: "revoked" }).pluck("cert_id");
  const later = 60 + LISTED_AFTER_END_SECONDS;
  api.clock.advance(later);
  vault.clock.move(later);
  const list = JSON.parse((await read(humanId)).text);
  expect(list.revoked_certs).toEqual((await revokedOf(accountId)).filter((id) => id !== ended));
});

test("a cached revocation list is replaced if the stored list was altered or an additional certificate was revoked", async () => {
  const { person, certId } = await delegated(api);
  await addRevoked(api.db, certId, 2);
  const first = await read(person.humanId);
  expect((await read(person.humanId)).text).toBe(first.text);
  const list = JSON.parse(first.text);
  const row = api.db("revocation_lists").where({ account_id: person.accountId });
  await row.clone().update({ list_json: JSON.stringify({ ...list, revoked_certs: [] }) });
  const again = JSON.parse((await read(person.humanId)).text);
  expect(again).toMatchObject({ revoked_certs: list.revoked_certs, updated_at: list.updated_at + 1 });
  await row.clone().update({ list_json: null });
  vault.clock.move(2);
  api.clock.advance(2);
  expect(JSON.parse((await read(person.humanId)).text).updated_at).toBe(list.updated_at + 2);
  await addRevoked(api.db, certId, 1);
  expect(JSON.parse((await read(person.humanId)).text).revoked_certs).toEqual(
    await revokedOf(person.accountId),
  );
});
