import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { type Person, runningApi } from "../support/api.ts";
import { errorCode, registerPlatform, type TestPlatform } from "../support/platform_world.ts";
import { declaration, declarations, newUid } from "./declarations.ts";

const api = runningApi();
const { put } = declarations(api);

const path = ({ connectionId }: TestPlatform) => `/v1/service/connections/${connectionId}`;
const prefixOf = (key: unknown) => String(key).slice(0, 12);

async function rotated({ client }: Person, platform: TestPlatform, graceSeconds: number): Promise<string> {
  const answer = await client.post(`${path(platform)}/rotate-key`, { grace_seconds: graceSeconds });
  return String(answer.body.api_key);
}

const isGood = async (platform: TestPlatform, key: string): Promise<boolean> => {
  const headers = { "x-service-api-key": key };
  return (await api.client().get(`${path(platform)}/agents`, { headers })).status === 200;
};

describe("the routes for the keys of a connection", () => {
  test("show when each key expires, until a week after the expiry, but not the key itself", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person);
    const read = async () => (await person.client.get(path(platform))).body;
    const first = { api_key_prefix: prefixOf(platform.apiKey), created_at: api.clock.now().toISOString() };
    expect(await read()).toEqual({
      connection_id: platform.connectionId,
      platform: { platform_id: platform.platformId, name: "Shop" },
      verifier_id: platform.connectionId,
      registry_answers: false,
      outside_verifiers: [],
      callback_url: null,
      callback_state: "active",
      created_at: first.created_at,
      declared_by: null,
      api_keys: [{ ...first, valid_until: null }],
    });
    api.clock.advance(60);
    const now = api.clock.now();
    const key = await rotated(person, platform, 3_600);
    const ended = { ...first, valid_until: addSeconds(now, 3_600).toISOString() };
    const current = { api_key_prefix: prefixOf(key), created_at: now.toISOString(), valid_until: null };
    expect((await read()).api_keys).toEqual([current, ended]);
    api.clock.advance(3_600 + 7 * 86_400 - 1);
    await person.client.signIn(person.email);
    expect((await read()).api_keys).toEqual([current, ended]);
    api.clock.advance(1);
    expect((await read()).api_keys).toEqual([current]);
    expect(JSON.stringify(await read())).not.toContain(key.slice(13, 40));
  });

  test("end the former keys before their expiry, but not the current key", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person);
    const second = await rotated(person, platform, 7_200);
    const third = await rotated(person, platform, 3_600);
    for (const key of [platform.apiKey, second, third]) expect(await isGood(platform, key)).toBe(true);
    const end = () => person.client.post(`${path(platform)}/end-former-keys`);
    expect((await end()).body).toEqual({
      connection_id: platform.connectionId,
      ended: [prefixOf(platform.apiKey), prefixOf(second)].sort(),
    });
    expect(await isGood(platform, platform.apiKey)).toBe(false);
    expect(await isGood(platform, second)).toBe(false);
    expect(await isGood(platform, third)).toBe(true);
    expect((await end()).body).toMatchObject({ ended: [] });
  });

  test("return not_found to other accounts, and after the connection was removed", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person);
    const other = await api.person();
    for (const call of [
      other.client.get(path(platform)),
      other.client.post(`${path(platform)}/end-former-keys`),
    ]) {
      expect(errorCode(await call)).toBe("not_found");
    }
    await person.client.call("DELETE", path(platform));
    expect(errorCode(await person.client.get(path(platform)))).toBe("not_found");
  });

  test("show which object declares the connection, as the platform's routes do", async () => {
    const person = await api.person();
    const object = { namespace: "default", name: "shop" };
    const { body } = await put(newUid(), declaration(person, { object }));
    const declared_by = { cluster_id: "c1", ...object };
    const platform = await person.client.get(`/v1/service/platforms/${body.platform_id}`);
    expect(platform.body.declared_by).toEqual(declared_by);
    const connection = await person.client.get(`/v1/service/connections/${body.connection_id}`);
    expect(connection.body.declared_by).toEqual(declared_by);
  });
});
