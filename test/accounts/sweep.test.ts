import { afterAll, beforeAll, expect, test } from "vitest";
import { sweepAccounts } from "../../src/accounts/sweep.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { steeredClock } from "../support/clock.ts";

const DAY = 24 * 60 * 60;
const SEND = "/v1/auth/email/send-code";

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ clock: steeredClock() });
});
afterAll(() => api.stop());

test("sweepAccounts deletes codes, limits, sessions and families once they have no effect, and not before", async () => {
  const client = api.client();
  await client.signIn("ada@example.com");
  await client.post(SEND, { email: "ada@example.com" });
  const counts = async () => {
    const tables = ["sign_in_mails", "rate_limits", "sessions", "session_families"] as const;
    return Promise.all(tables.map(async (table) => (await api.db.select("*").from(table)).length));
  };
  const before = await counts();
  expect(before).toEqual([2, 1, 1, 1]);

  api.clock.advance(600);
  await sweepAccounts(api);
  expect(await counts()).toEqual(before);

  api.clock.advance(901);
  await sweepAccounts(api);
  expect(await counts()).toEqual([2, 0, 1, 1]);

  api.clock.advance(DAY);
  await sweepAccounts(api);
  expect(await counts()).toEqual([0, 0, 1, 1]);

  api.clock.advance(30 * DAY);
  expect((await client.post("/v1/auth/refresh")).status).toBe(401);
  await sweepAccounts(api);
  expect(await counts()).toEqual([0, 0, 1, 1]);

  api.clock.advance(30 * DAY);
  await sweepAccounts(api);
  expect(await counts()).toEqual([0, 0, 0, 0]);
});

test.each([
  ["by its browser", true],
  ["without its cookie", false],
])(
  "sweepAccounts keeps a code with a wrong try %s while the try counts, for 30 days after the code has ended",
  async (_, isOwn) => {
    const client = api.client();
    const email = "tried@example.com";
    await client.post(SEND, { email });
    const code = (await client.codeFor(email)) === "000000" ? "000001" : "000000";
    await (isOwn ? client : api.client()).post("/v1/auth/email/verify-code", { email, code });
    api.clock.advance(600 + 30 * DAY);
    await sweepAccounts(api);
    expect(await api.db("sign_in_mails")).toHaveLength(1);
    api.clock.advance(1);
    await sweepAccounts(api);
    expect(await api.db("sign_in_mails")).toEqual([]);
  },
);

test("sweepAccounts keeps an old family that is still being refreshed", async () => {
  const patient = await startApi({ shares: api, config: { SIGN_IN_DAYS: 365 } });
  try {
    const client = patient.client();
    await client.signIn("eve@example.com");
    for (let n = 0; n < 4; n += 1) {
      api.clock.advance(29 * DAY);
      expect((await client.post("/v1/auth/refresh")).status).toBe(200);
      await sweepAccounts(api);
    }
    expect((await client.get("/v1/auth/session")).status).toBe(200);
  } finally {
    await patient.stop();
  }
});
