import { expect, test } from "vitest";
import { newApiKey } from "../../../src/platforms/api_keys/api_key.ts";
import { browserOf } from "../../console/support/console.ts";
import { runningApi } from "../../support/api.ts";
import { createKey, fillKeys } from "../../support/narrow_keys.ts";
import { delegated } from "../../support/platform_world.ts";

const api = runningApi();

type Owned = Awaited<ReturnType<typeof delegated>>;
type Listed = { api_key_prefix: string; valid_until: string | null };

const pathOf = ({ platform }: Owned) => `/v1/service/connections/${platform.connectionId}`;

/** Creates an agent key with the full key, as a thief of the full key does. Returns the new key. */
async function plant({ platform, agentId }: Owned): Promise<string> {
  return String((await createKey(api, platform, { role: "agent", agent_id: agentId })).body.api_key);
}

const prefixOf = (key: string) => key.slice(0, 13);

const statusOf = async (key: string) =>
  (await api.client().get("/v1/service/keys/self", { headers: { "x-service-api-key": key } })).status;

/** Stores verify keys that began now and ended one after another. */
async function storeEndedKeys({ platform, person }: Owned, number: number): Promise<void> {
  const now = api.clock.now();
  const rows = Array.from({ length: number }, (_, n) => {
    const { prefix, hash } = newApiKey("verify");
    return {
      key_prefix: prefix,
      key_hash: hash,
      role: "verify" as const,
      account_id: person.accountId,
      connection_id: platform.connectionId,
      agent_id: null,
      made_with: null,
      created_at: now,
      ended_at: new Date(now.getTime() - Math.floor(n / 2)),
    };
  });
  await api.db("narrow_keys").insert(rows);
}

async function listAll(owned: Owned, limit: number): Promise<Listed[]> {
  const items: Listed[] = [];
  let cursor: unknown = "";
  while (typeof cursor === "string") {
    const query = cursor === "" ? "" : `&cursor=${cursor}`;
    const { body } = await owned.person.client.get(`${pathOf(owned)}/keys?limit=${limit}${query}`);
    items.push(...(body.items as Listed[]));
    cursor = body.next_cursor;
  }
  return items;
}

const openPage = (owned: Owned) =>
  browserOf(api, owned.person.client).open(`/console/connections/${owned.platform.connectionId}`);

test("the list shows valid keys before ended ones, and each key once, whatever the size of its pages", async () => {
  const owned = await delegated(api);
  const planted = prefixOf(await plant(owned));
  api.clock.advance(60);
  const rotated = await owned.person.client.post(`${pathOf(owned)}/rotate-key`, { grace_seconds: 600 });
  await storeEndedKeys(owned, 11);
  const all = await listAll(owned, 100);
  const prefixes = all.map(({ api_key_prefix }) => api_key_prefix);
  const former = owned.platform.apiKey.slice(0, 12);
  expect(prefixes.slice(0, 3)).toEqual([rotated.body.api_key_prefix, planted, former]);
  expect(new Set(prefixes).size).toBe(14);
  const ends = all.slice(2).map(({ valid_until }) => String(valid_until));
  expect(ends).toEqual(ends.toSorted().reverse());
  for (const limit of [1, 4]) expect(await listAll(owned, limit)).toEqual(all);
});

test("the console shows and ends a planted key behind more than a page of ended keys, with its maker", async () => {
  const owned = await delegated(api);
  const planted = await plant(owned);
  api.clock.advance(60);
  await storeEndedKeys(owned, 120);
  await owned.person.client.post(`${pathOf(owned)}/rotate-key`);
  const shown = await openPage(owned);
  expect(shown.words).toContain(`with the key ${owned.platform.apiKey.slice(0, 12)}…`);
  const ended = await shown.send("end_key", { api_key_prefix: prefixOf(planted) });
  expect(ended.words).toContain("ended");
  expect(await statusOf(planted)).toBe(401);
});

test("the console shows all valid keys if they do not fit on one page of the list", async () => {
  const owned = await delegated(api);
  const planted = prefixOf(await plant(owned));
  api.clock.advance(60);
  await fillKeys(api, owned.platform.connectionId);
  const shown = await openPage(owned);
  expect(shown.text).toContain(`<option value="${planted}">`);
  expect(shown.words).toContain("by a member");
});

test("a narrow key stops when it ends, even if this replica's clock is behind the one that ended it", async () => {
  const owned = await delegated(api);
  const key = await plant(owned);
  expect(await statusOf(key)).toBe(200);
  const later = new Date(api.clock.now().getTime() + 30_000);
  await api
    .db("narrow_keys")
    .where({ key_prefix: prefixOf(key) })
    .update({ ended_at: later });
  await expect.poll(() => statusOf(key), { timeout: 20_000, interval: 20 }).toBe(401);
  expect((await openPage(owned)).words).toMatch(/with the key .* – ended/);
});
