import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import type { HttpClient } from "../../support/http.ts";

const SEND = "/v1/auth/email/send-code";
const VERIFY = "/v1/auth/email/verify-code";

let count = 0;
const fresh = () => `owner${++count}@example.com`;
const wrong = (code: string) => (code === "000000" ? "000001" : "000000");

describe("the rate limit of tries", () => {
  test.each([
    ["203.0.113.1", "203.0.113.2"],
    ["2001:db8:1::7", "2001:db8:2::7"],
  ])(
    "limits the client %s across all addresses and replicas, and does not count right codes",
    async (ip, stranger) => {
      const one = await startApi({ config: { VERIFY_CODE_PER_IP: 3, TRUSTED_PROXIES: ["127.0.0.0/8"] } });
      const other = await startApi({
        shares: one,
        config: { VERIFY_CODE_PER_IP: 3, TRUSTED_PROXIES: ["127.0.0.0/8"] },
      });
      const from = (ip: string) => ({ headers: { "x-forwarded-for": ip } });
      const guess = (at: TestApi, ip: string) =>
        at.client().post(VERIFY, { email: fresh(), code: "000000" }, from(ip));
      try {
        for (let n = 0; n < 5; n += 1) {
          const client = one.client();
          expect((await client.post(SEND, { email: `n${n}@example.com` }, from(ip))).status).toBe(200);
          const code = await client.codeFor(`n${n}@example.com`);
          expect(
            (await one.client().post(VERIFY, { email: `n${n}@example.com`, code }, from(ip))).status,
          ).toBe(200);
        }
        const statuses = [];
        for (const at of [one, other, one, other]) statuses.push((await guess(at, ip)).status);
        expect(statuses).toEqual([400, 400, 400, 429]);
        const refused = await guess(one, ip);
        expect(refused).toMatchObject({ status: 429, body: { error: { code: "rate_limited" } } });
        expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(800);
        expect((await guess(one, stranger)).status).toBe(400);
      } finally {
        await other.stop();
        await one.stop();
      }
    },
  );

  describe("for a browser with its own code", () => {
    let api: TestApi;
    beforeEach(async () => {
      api = await startApi({ config: { VERIFY_CODE_PER_IP: 2, SEND_CODE_PER_ADDRESS: 1 } });
    });
    afterEach(() => api.stop());

    const email = "owner@example.com";
    const guess = (code = "000000") => api.client().post(VERIFY, { email: "else@example.com", code });
    const limited = { status: 429, body: { error: { code: "rate_limited" } } };

    async function ownCode(): Promise<{ owner: HttpClient; code: string }> {
      const owner = api.client();
      await owner.post(SEND, { email });
      return { owner, code: await owner.codeFor(email) };
    }

    test("lets the browser sign in after others have used up the network's tries", async () => {
      const { owner, code } = await ownCode();
      for (let n = 0; n < 2; n += 1) expect((await guess()).status).toBe(400);
      expect(await guess()).toMatchObject(limited);
      expect(await api.client().post(VERIFY, { email, code })).toMatchObject(limited);
      expect((await owner.post(VERIFY, { email, code: wrong(code) })).status).toBe(400);
      expect((await owner.post(VERIFY, { email, code })).status).toBe(200);
    });

    test("does not count tries of the browser's own code until they are used up", async () => {
      const { owner, code } = await ownCode();
      for (let n = 0; n < 5; n += 1) {
        expect((await owner.post(VERIFY, { email, code: wrong(code) })).status).toBe(400);
      }
      expect(await triesLeft()).toBe(2);
      for (let n = 0; n < 2; n += 1) expect((await owner.post(VERIFY, { email, code })).status).toBe(400);
      expect(await owner.post(VERIFY, { email, code })).toMatchObject(limited);
      const [row] = await api.db("sign_in_mails").where({ kind: "digits" });
      expect(row).toMatchObject({ own_tries: 5, shared_tries: 0 });
    });

    test("gives back no try after the browser's own right code, because that try was not counted", async () => {
      await guess();
      const { owner, code } = await ownCode();
      expect((await owner.post(VERIFY, { email, code })).status).toBe(200);
      expect(await triesLeft()).toBe(1);
    });

    test("gives back the try that used a right link code", async () => {
      const { owner } = await ownCode();
      for (let n = 0; n < 2; n += 1) await owner.post(SEND, { email });
      const code = await owner.codeFor(email);
      expect(code).toHaveLength(32);
      expect((await owner.post(VERIFY, { email, code })).status).toBe(200);
      expect(await triesLeft()).toBe(2);
    });

    test("counts link codes and codes for other browsers, even in a browser with its own code", async () => {
      const { owner } = await ownCode();
      expect((await owner.post(VERIFY, { email, code: "0".repeat(32) })).status).toBe(400);
      expect((await owner.post(VERIFY, { email: "else@example.com", code: "000000" })).status).toBe(400);
      expect(await triesLeft()).toBe(0);
      expect(await owner.post(VERIFY, { email, code: "0".repeat(32) })).toMatchObject(limited);
    });

    async function triesLeft(): Promise<number> {
      const row = await api.db("rate_limits").where("key", "like", "verify_code_ip:%").first("points");
      return 2 - (row?.points ?? 0);
    }
  });
});
