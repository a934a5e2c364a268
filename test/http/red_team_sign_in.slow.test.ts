import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/api.ts";
import type { HttpClient } from "../support/http.ts";

const QUARTER_HOUR = 15 * 60;
const QUARTERS_A_DAY = 96;
let api: TestApi;

/** The API has the default limits and a trusted proxy in front of it. */
beforeAll(async () => {
  api = await startApi({
    config: {
      SEND_CODE_PER_IP: 5,
      SEND_CODE_PER_ADDRESS: 3,
      SEND_CODE_PER_DAY: 12,
      VERIFY_CODE_PER_IP: 30,
      TRUSTED_PROXIES: ["127.0.0.1"],
    },
  });
});
afterAll(() => api.stop());

let networks = 0;
const network = () => {
  networks += 1;
  return { "x-forwarded-for": `10.${networks >> 16}.${(networks >> 8) & 255}.${networks & 255}` };
};

const send = (client: HttpClient, email: string, headers = network()) =>
  client.post("/v1/auth/email/send-code", { email }, { headers });
const verify = (client: HttpClient, email: string, code: string, headers = network()) =>
  client.post("/v1/auth/email/verify-code", { email, code }, { headers });

/** An outsider can cause three codes in a quarter of an hour, and try each five times from new networks. */
async function attack(email: string): Promise<void> {
  for (let mails = 0; mails < 3; mails += 1) {
    const browser = api.client();
    await send(browser, email);
    for (let tries = 0; tries < 5; tries += 1) await verify(browser, email, "777777");
  }
}

/** Returns the number of guesses that were compared with a six-digit code. */
async function comparedGuesses(): Promise<number> {
  const { rows } = await api.db.raw(
    "select coalesce(sum(own_tries + shared_tries), 0)::int as tries from sign_in_mails where kind = 'digits'",
  );
  return rows[0].tries;
}

async function mailsTo(email: string) {
  const { body } = await api.client().get("/dev/mailbox", { headers: { accept: "application/json" } });
  return (body.mails as { to: string; subject: string; text: string }[]).filter(({ to }) => to === email);
}

describe("an attacker without an account, from changing networks, for a day", () => {
  const email = "victim@example.com";
  let owner: HttpClient;

  beforeAll(async () => {
    owner = api.client();
    for (let quarter = 0; quarter < QUARTERS_A_DAY; quarter += 1) {
      await attack(email);
      api.clock.advance(QUARTER_HOUR);
    }
  }, 120_000);

  test("makes 1,440 guesses, of which only 30 are compared with a code", async () => {
    expect(await comparedGuesses()).toBeLessThanOrEqual(30);
    expect(await comparedGuesses()).toBeGreaterThan(0);
  });

  test("causes the victim to receive a link with a 128-bit secret instead of six digits", async () => {
    const newest = (await mailsTo(email)).find(({ subject }) => subject.startsWith("Your sign-in"));
    expect(newest?.subject).toBe("Your sign-in link");
    expect(newest?.text).toMatch(/^[0-9a-f]{32}$/m);
  });

  test("causes one notice to the owner", async () => {
    const notices = (await mailsTo(email)).filter(({ subject }) => subject.startsWith("Wrong sign-in codes"));
    expect(notices).toHaveLength(1);
  });

  test("does not prevent the owner from signing in during the attack", async () => {
    await attack(email);
    api.clock.advance(2 * QUARTER_HOUR);
    expect((await send(owner, email)).status).toBe(200);
    const [mail] = (await mailsTo(email)).filter(({ subject }) => subject.startsWith("Your sign-in"));
    await attack(email);
    const code = /\b([0-9]{6}|[0-9a-f]{32})\b/.exec(mail?.text ?? "")?.[0] ?? "";
    expect((await verify(owner, email, code)).status).toBe(200);
  });
});

describe("one client that tries codes of many addresses", () => {
  test("gets 429 after thirty wrong codes, without affecting other clients", async () => {
    const one = network();
    const tried: number[] = [];
    for (let n = 0; n < 31; n += 1) {
      tried.push((await verify(api.client(), `other${n}@example.com`, "123456", one)).status);
    }
    expect(tried).toEqual([...Array.from({ length: 30 }, () => 400), 429]);
    expect((await verify(api.client(), "other@example.com", "123456")).status).toBe(400);
  });
});
