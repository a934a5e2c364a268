import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Person, startApi, type TestApi } from "../../support/api.ts";
import { createAgent, registerPlatform, type TestPlatform } from "../../support/platform_world.ts";
import { type Browser, browserOf, type Shown } from "../support/console.ts";

const KEY = /dpz_\w{8}_\w{43}_\w{6}/;

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

type Scene = { person: Person; platform: TestPlatform; browser: Browser; path: string };

async function scene(): Promise<Scene> {
  const person = await api.person();
  const platform = await registerPlatform(person);
  const path = `/console/connections/${platform.connectionId}`;
  return { person, platform, browser: browserOf(api, person.client), path };
}

/** Returns for each key whether it is valid. */
function good({ platform }: Scene, ...keys: string[]): Promise<boolean[]> {
  const path = `/v1/service/connections/${platform.connectionId}/agents`;
  const isGood = async (key: string) =>
    (await api.client().get(path, { headers: { "x-service-api-key": key } })).status === 200;
  return Promise.all(keys.map(isGood));
}

async function rotate({ browser, path }: Scene, grace_seconds?: string): Promise<Shown> {
  const opened = await browser.open(`${path}/rotate-key`);
  return opened.send("rotate", grace_seconds === undefined ? {} : { grace_seconds });
}

const keyOf = ({ text }: Shown): string => KEY.exec(text)?.[0] ?? "none";

describe("the API key", () => {
  test("can be replaced, and both keys are valid until the countdown ends, then only the new key", async () => {
    const given = await scene();
    const { person, platform, browser, path } = given;
    const rotated = await rotate(given);
    const key = keyOf(rotated);
    expect(rotated.words).toContain("1:00:00 left");
    expect(await good(given, platform.apiKey, key)).toEqual([true, true]);
    const end = new Date(api.clock.now().getTime() + 3_600_000).toISOString();
    api.clock.advance(840);
    const during = await browser.open(path);
    expect(during.text).toContain(`<time datetime="${end}">`);
    expect(during.text).toContain(`data-countdown="${3_600 - 840}"`);
    expect(during.words).toMatch(/✓ current .* ! good until .* 0:46:00 left/);
    api.clock.advance(3_600 - 840 - 1);
    expect(await good(given, platform.apiKey, key)).toEqual([true, true]);
    api.clock.advance(1);
    expect(await good(given, platform.apiKey, key)).toEqual([false, true]);
    await person.client.signIn(person.email);
    const after = await browser.open(path);
    expect(after.words).toMatch(/✓ current .* – ended/);
    expect(after.text).not.toMatch(/data-countdown=|good until|value="end_former"/);
  });

  test("can be replaced immediately", async () => {
    const given = await scene();
    const rotated = await rotate(given, "0");
    expect(rotated.words).toContain("has ended.");
    expect(await good(given, given.platform.apiKey, keyOf(rotated))).toEqual([false, true]);
  });

  test("becomes the only valid key after the former key was ended early", async () => {
    const given = await scene();
    const key = keyOf(await rotate(given, "86400"));
    const shown = await (await given.browser.open(given.path)).send("end_former");
    expect(shown.words).toContain("The former keys have ended.");
    expect(await good(given, given.platform.apiKey, key)).toEqual([false, true]);
  });

  test("appears only once, even if the form is sent again or other pages are opened", async () => {
    const given = await scene();
    const opened = await given.browser.open(`${given.path}/rotate-key`);
    const all = await Promise.all([1, 2, 3].map(() => opened.send("rotate")));
    const shown = all.filter(({ text }) => KEY.test(text));
    expect(shown).toHaveLength(1);
    const again = await opened.send("rotate");
    expect([again.status, KEY.test(again.text)]).toEqual([200, false]);
    expect(again.words).toContain("This was done already");
    for (const path of [given.path, `${given.path}/rotate-key`, "/console/platforms", "/console"]) {
      expect([path, KEY.test((await given.browser.open(path)).text)]).toEqual([path, false]);
    }
    expect(await good(given, keyOf(shown[0] as Shown), given.platform.apiKey)).toEqual([true, true]);
    const { body } = await given.person.client.get(`/v1/service${given.path.replace("/console", "")}`);
    expect(body.api_keys).toHaveLength(2);
  });

  test("cannot be replaced with an invalid grace period", async () => {
    const given = await scene();
    for (const grace of ["", "86401", "-1", "x"]) {
      const refused = await rotate(given, grace);
      expect([grace, refused.status]).toEqual([grace, 400]);
      expect(refused.text).toContain('id="rotate-grace_seconds-fault"');
    }
    expect(await good(given, given.platform.apiKey)).toEqual([true]);
  });
});

describe("a key for one purpose", () => {
  const self = (key: string) =>
    api.client().get("/v1/service/keys/self", { headers: { "x-service-api-key": key } });

  test("can be made on the connection's page, appears once, and can be ended there", async () => {
    const given = await scene();
    const agentId = await createAgent(api.client(), given.platform, { name: "courier" });
    const opened = await given.browser.open(given.path);
    const made = await opened.send("create_key", { purpose: agentId });
    const key = /dpza_\w{8}_\w{43}_\w{6}/.exec(made.text)?.[0] ?? "none";
    expect((await self(key)).body).toMatchObject({ role: "agent", agent_id: agentId });
    const again = await opened.send("create_key", { purpose: agentId });
    expect([again.status, again.text.includes(key)]).toEqual([200, false]);
    const listed = await given.browser.open(given.path);
    expect(listed.words).toMatch(/dpza_\w{8}… the agent courier .* never ✓ current/);
    expect(listed.text).not.toContain(key);
    const ended = await listed.send("end_key", { api_key_prefix: key.slice(0, 13) });
    expect(ended.words).toContain("The key has ended.");
    expect(ended.text).not.toContain('value="end_key"');
    expect((await self(key)).status).toBe(401);
    const verify = await (await given.browser.open(given.path)).send("create_key", { purpose: "verify" });
    expect(verify.text).toMatch(/dpzv_\w{8}_\w{43}_\w{6}/);
  });
});

describe("a connection", () => {
  test("can be renamed, be allowed to answer without a proof, and list outside verifiers", async () => {
    const { browser, path, person, platform } = await scene();
    const opened = await browser.open(`${path}/change`);
    const outside = "https://bank.example\r\n\r\n https://post.example ";
    const changed = await opened.send("change", {
      verifier_id: "shop.example.com",
      registry_answers: "on",
      outside_verifiers: outside,
    });
    expect(changed.words).toContain("https://bank.example, https://post.example");
    expect([changed.path, changed.words.includes("shop.example.com")]).toEqual([
      `${path}?notice=changed`,
      true,
    ]);
    expect(changed.words).toContain("AuthZEN questions are answered");
    const off = await (await browser.open(`${path}/change`)).send("change", { registry_answers: [] });
    expect(off.words).toContain("a decision needs a proof");
    const empty = await opened.send("change", { verifier_id: "" });
    expect(empty.text).toContain('id="change-verifier_id-fault"');
    const { body } = await person.client.get(`/v1/service/connections/${platform.connectionId}`);
    expect(body).toMatchObject({
      verifier_id: "shop.example.com",
      registry_answers: false,
      outside_verifiers: ["https://bank.example", "https://post.example"],
    });
  });

  test("can be removed with its key after confirmation", async () => {
    const given = await scene();
    const opened = await given.browser.open(`${given.path}/remove`);
    const unsure = await opened.send("remove", { sure: [] });
    expect(unsure.text).toContain('id="remove-sure-fault">Tick this to remove it.');
    expect(await good(given, given.platform.apiKey)).toEqual([true]);
    const removed = await opened.send("remove", { sure: "on" });
    expect(removed.words).toContain("The platform and its connection are removed.");
    expect(removed.words).toContain("There is no platform yet");
    expect(await good(given, given.platform.apiKey)).toEqual([false]);
    expect((await given.browser.open(given.path)).status).toBe(404);
  });

  test("does not appear for other accounts", async () => {
    const { path, platform } = await scene();
    const other = browserOf(api, (await api.person()).client);
    for (const suffix of ["", "/rotate-key", "/change", "/remove"]) {
      expect((await other.open(`${path}${suffix}`)).status).toBe(404);
    }
    expect((await other.open(`/console/platforms/${platform.platformId}`)).status).toBe(404);
  });
});
