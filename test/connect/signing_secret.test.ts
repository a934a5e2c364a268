import { describe, expect, test } from "vitest";
import { isClientSecret } from "../../src/connect/signing_secret.ts";
import { newId } from "../../src/ids.ts";
import { declaration, declarations, path } from "../platforms/declarations.ts";
import { type Person, runningApi } from "../support/api.ts";
import { errorCode, registerPlatform } from "../support/platform_world.ts";

const api = runningApi();
const { put, declared } = declarations(api);

const rotate = ({ client }: Person, platformId: string, body?: unknown) =>
  client.post(`/v1/service/platforms/${platformId}/rotate-signing-secret`, body);
const isAccepted = (platformId: string, secret: unknown) => isClientSecret(api, platformId, String(secret));

async function registered() {
  const person = await api.person();
  const { platformId, connectionId, answer } = await registerPlatform(person);
  return { person, platformId, connectionId, body: answer.body };
}

describe("the rotation of a signing secret", () => {
  test("returns a new secret, and keeps the API key of a platform that no object declares", async () => {
    const { person, platformId, body } = await registered();
    expect((await rotate(person, platformId, { grace_seconds: 60 })).body).toEqual({
      platform_id: platformId,
      signing_secret: expect.stringMatching(/^dps_[\w-]{43}$/),
      former_expires_at: new Date(api.clock.now().getTime() + 60_000).toISOString(),
      api_key_prefix: body.api_key_prefix,
    });
  });

  test("accepts the former secret until its grace ends, and the new one afterwards", async () => {
    const { person, platformId, body } = await registered();
    const { signing_secret } = (await rotate(person, platformId, { grace_seconds: 60 })).body;
    api.clock.advance(59.999);
    expect(await isAccepted(platformId, body.signing_secret)).toBe(true);
    api.clock.advance(0.001);
    expect(await isAccepted(platformId, body.signing_secret)).toBe(false);
    expect(await isAccepted(platformId, signing_secret)).toBe(true);
  });

  test("ends the former secret immediately without a grace, and at a second rotation", async () => {
    const { person, platformId, body } = await registered();
    const second = (await rotate(person, platformId)).body.signing_secret;
    const third = (await rotate(person, platformId)).body.signing_secret;
    expect(await isAccepted(platformId, body.signing_secret)).toBe(false);
    expect(await isAccepted(platformId, second)).toBe(true);
    await rotate(person, platformId, { grace_seconds: 0 });
    expect(await isAccepted(platformId, third)).toBe(false);
    const row = await api.db("platforms").where({ platform_id: platformId }).first();
    expect(row).toMatchObject({ signing_former_sealed: null, signing_former_until: null });
  });

  test("has a grace of a day by default, and of at most 7 days", async () => {
    const { person, platformId } = await registered();
    const until = new Date(api.clock.now().getTime() + 86_400_000).toISOString();
    expect((await rotate(person, platformId)).body.former_expires_at).toBe(until);
    expect((await rotate(person, platformId, { grace_seconds: 604_800 })).status).toBe(200);
    expect(errorCode(await rotate(person, platformId, { grace_seconds: 604_801 }))).toBe("invalid_request");
  });

  test("finds no platform of another account", async () => {
    const { platformId } = await registered();
    expect(errorCode(await rotate(await api.person(), platformId))).toBe("not_found");
  });

  test("reaches the operator with a new API key if an object declares the platform", async () => {
    const { person, id, answer, credentials } = await declared();
    const platformId = String(answer.body.platform_id);
    await api.operator("POST", `${path(id)}/credentials/acknowledge`, {
      api_key_prefix: answer.body.api_key_prefix,
    });
    const { body } = await rotate(person, platformId);
    expect(body.api_key_prefix).not.toBe(answer.body.api_key_prefix);
    const again = (await put(id, declaration(person))).body.credentials as Record<string, string>;
    expect(again.signing_secret).toBe(body.signing_secret);
    expect(again.api_key).toMatch(new RegExp(`^${String(body.api_key_prefix)}_`));
    expect(again.webhook_signing_secret).toBe(credentials.webhook_signing_secret);
  });
});

describe("isClientSecret", () => {
  test("rejects secrets of other platforms, other texts, and ids of no platform", async () => {
    const { platformId, body } = await registered();
    const other = await registered();
    for (const secret of [other.body.signing_secret, "", "dps_", `${String(body.signing_secret)}=`]) {
      expect(await isAccepted(platformId, secret)).toBe(false);
    }
    expect(await isAccepted(newId(), body.signing_secret)).toBe(false);
    expect(await isAccepted("shop", body.signing_secret)).toBe(false);
  });

  test("rejects the secret of a removed platform", async () => {
    const { person, platformId, connectionId, body } = await registered();
    await person.client.call("DELETE", `/v1/service/connections/${connectionId}`);
    expect(await isAccepted(platformId, body.signing_secret)).toBe(false);
  });
});
