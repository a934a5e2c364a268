import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createCodeHashes, newCode } from "../../../src/accounts/sign_in/codes.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import type { HttpAnswer } from "../../support/http.ts";

const SEND = "/v1/auth/email/send-code";
const VERIFY = "/v1/auth/email/verify-code";
const refused = { status: 400, body: { error: { code: "invalid_code", status: 400 } } };

let api: TestApi;
let other: TestApi;
beforeAll(async () => {
  api = await startApi();
  other = await startApi({ shares: api });
});
afterAll(async () => {
  await other.stop();
  await api.stop();
});

let count = 0;
async function sent(): Promise<{ email: string; code: string; verify(code: string): Promise<HttpAnswer> }> {
  count += 1;
  const email = `person${count}@example.com`;
  const client = api.client();
  await client.post(SEND, { email });
  const verify = (code: string) => api.client().post(VERIFY, { email, code });
  return { email, code: await client.codeFor(email), verify };
}

function wrong(code: string): string {
  return code === "000000" ? "000001" : "000000";
}

describe("a sign-in code", () => {
  test("signs in and opens the account at its first onboarding step, whatever the case of the address", async () => {
    const { email, code } = await sent();
    const answer = await api.client().post(VERIFY, { email: email.toUpperCase(), code });
    expect(answer).toMatchObject({ status: 200, body: { email, onboarding_step: "profile" } });
    expect(Object.keys(answer.body).sort()).toEqual(["account_id", "email", "onboarding_step"]);
  });

  test("signs in to the same account the next time, at its current onboarding step", async () => {
    const client = api.client();
    const { account_id } = await client.onboard("again@example.com");
    expect(await api.client().signIn("again@example.com")).toEqual({
      account_id,
      email: "again@example.com",
      onboarding_step: "complete",
    });
  });

  test("fails if it is wrong, with the same answer as for an address without a code", async () => {
    const { code, verify } = await sent();
    const wrongCode = await verify(wrong(code));
    const unknown = await api.client().post(VERIFY, { email: "nobody@example.com", code });
    expect(wrongCode).toMatchObject(refused);
    expect(unknown.text).toBe(wrongCode.text);
    expect(wrongCode.headers.getSetCookie()).toEqual([]);
  });

  test("fails at its second use", async () => {
    const { code, verify } = await sent();
    expect((await verify(code)).status).toBe(200);
    expect(await verify(code)).toMatchObject(refused);
  });

  test.each([
    [
      "full-width digits",
      (code: string) => code.replaceAll(/\d/g, (n) => String.fromCodePoint(0xff10 + Number(n))),
    ],
    ["spaces and line breaks", (code: string) => ` ${code.slice(0, 3)}\u00a0\u3000${code.slice(3)}\r\n`],
    [
      "dashes and dots",
      (code: string) => `${code.slice(0, 2)}-${code.slice(2, 4)}\u2013.${code.slice(4)}\u2212`,
    ],
    [
      "dashes and dots of Japanese and Chinese keyboards",
      (code: string) => `${code.slice(0, 2)}\u30fc${code.slice(2, 4)}\u3002${code.slice(4)}\uff65\u00b7`,
    ],
    ["zero-width characters", (code: string) => `\ufeff${[...code].join("\u200b")}\u200d\u2060\u00ad`],
  ])("works if it is written with %s", async (_, write) => {
    const { code, verify } = await sent();
    expect((await verify(write(code))).status).toBe(200);
  });

  test("fails for a different address", async () => {
    const [one, two] = [await sent(), await sent()];
    if (one.code !== two.code) expect(await one.verify(two.code)).toMatchObject(refused);
    expect((await one.verify(one.code)).status).toBe(200);
  });

  /** Requests codes in one browser, until `count` different ones have arrived. */
  async function browserWith(
    count: number,
  ): Promise<{ codes: string[]; verify(code?: string): Promise<number> }> {
    const { email } = await sent();
    const client = api.client();
    const codes: string[] = [];
    for (let n = 0; n < count; n += 1) {
      await client.post(SEND, { email });
      codes.push(await client.codeFor(email));
    }
    if (new Set(codes).size < count) return browserWith(count);
    return { codes, verify: async (code) => (await client.post(VERIFY, { email, code })).status };
  }

  test.each([0, 1])(
    "signs in if the browser requested two codes and used the one at index %i, and ends the other one",
    async (used) => {
      const { codes, verify } = await browserWith(2);
      expect(await verify(codes[used])).toBe(200);
      expect(await verify(codes[1 - used])).toBe(400);
      expect(await verify(codes[used])).toBe(400);
    },
  );

  test("fails once its browser received two newer codes", async () => {
    const { codes, verify } = await browserWith(3);
    expect(await verify(codes[0])).toBe(400);
    expect(await verify(codes[1])).toBe(200);
  });

  test("opens one session if both codes of a browser arrive many times concurrently", async () => {
    const { codes, verify } = await browserWith(2);
    const statuses = await Promise.all(Array.from({ length: 5 }, (_, n) => verify(codes[n % 2])));
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
  });

  test("fails without a cookie once a new code was sent without a cookie", async () => {
    const { email, code, verify } = await sent();
    const client = api.client();
    await client.post(SEND, { email });
    const next = await client.codeFor(email);
    if (next !== code) expect(await verify(code)).toMatchObject(refused);
    expect((await verify(next)).status).toBe(200);
  });

  test("works until it is 10 minutes old", async () => {
    const { code, verify } = await sent();
    api.clock.advance(600);
    expect((await verify(code)).status).toBe(200);
  });

  test("fails a millisecond after 10 minutes", async () => {
    const { code, verify } = await sent();
    api.clock.advance(600.001);
    expect(await verify(code)).toMatchObject(refused);
  });

  test.each([
    ["begins", 0, 2],
    ["ends", 30, 32],
  ])("fails if it is wrong, even if its hash %s like the hash of the right code", async (_, from, to) => {
    const { email, code, verify } = await sent();
    const hashes = createCodeHashes(api.sealingKey);
    const partOf = (text: string) => hashes.code(email, text).subarray(from, to).toString("hex");
    const right = partOf(code);
    let alike = 0;
    const digits = () => alike.toString().padStart(6, "0");
    while (digits() === code || partOf(digits()) !== right) alike += 1;
    expect(await verify(digits())).toMatchObject(refused);
  });

  test("works at the fifth try", async () => {
    const { code, verify } = await sent();
    for (let n = 0; n < 4; n += 1) expect(await verify(wrong(code))).toMatchObject(refused);
    expect((await verify(code)).status).toBe(200);
  });

  test("fails at the sixth try, even if it is right", async () => {
    const { code, verify } = await sent();
    for (let n = 0; n < 5; n += 1) expect(await verify(wrong(code))).toMatchObject(refused);
    expect(await verify(code)).toMatchObject(refused);
  });

  test("has its own five tries after the previous code's tries were used up", async () => {
    const { email, code, verify } = await sent();
    for (let n = 0; n < 5; n += 1) await verify(wrong(code));
    const client = api.client();
    await client.post(SEND, { email });
    expect((await verify(await client.codeFor(email))).status).toBe(200);
  });

  test("opens only one session if two replicas receive it many times concurrently", async () => {
    for (let round = 0; round < 10; round += 1) {
      const { email, code } = await sent();
      const answers = await Promise.all(
        [api, other, api, other].map((each) => each.client().post(VERIFY, { email, code })),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 400, 400, 400]);
    }
  });

  test("can still be used after a sign-in that failed before the account was opened", async () => {
    const { email, code, verify } = await sent();
    await api.db.raw(`alter table accounts add constraint broken check (email <> '${email}')`);
    expect((await verify(code)).status).toBe(500);
    await api.db.raw("alter table accounts drop constraint broken");
    expect((await verify(code)).status).toBe(200);
  });

  test("allows only five tries if many wrong codes arrive at the same time", async () => {
    const { email, code } = await sent();
    await Promise.all(
      Array.from({ length: 12 }, () => api.client().post(VERIFY, { email, code: wrong(code) })),
    );
    const [row] = await api.db("sign_in_mails").where({ code_hash: codeHash(email, code) });
    expect(row).toMatchObject({ own_tries: 0, shared_tries: 5 });
    expect(await api.client().post(VERIFY, { email, code })).toMatchObject(refused);
  });

  test.each([
    ["a number", 123456],
    ["five digits", "12345"],
    ["seven digits", "1234567"],
    ["letters", "12345a"],
    ["longer than its separators can explain", `${" ".repeat(123)}123456`],
    ["longer than a link's code", "0".repeat(33)],
    ["digits of another script", "١٢٣٤٥٦"],
    ["missing", undefined],
  ])("causes invalid_request and uses no try if it is %s", async (_, code) => {
    const { email, code: right, verify } = await sent();
    for (let n = 0; n < 6; n += 1) {
      expect(await api.client().post(VERIFY, { email, code })).toMatchObject({
        status: 400,
        body: { error: { code: "invalid_request" } },
      });
    }
    expect((await verify(right)).status).toBe(200);
  });
});

function codeHash(email: string, code: string): Buffer {
  return createCodeHashes(api.sealingKey).code(email, code);
}

describe("codes and their hashes", () => {
  const [one, two] = [createCodeHashes(Buffer.alloc(32, 1)), createCodeHashes(Buffer.alloc(32, 2))];

  test("a code's hash depends on the key, the address and the code", () => {
    const hashes = [
      one.code("a@example.com", "123456"),
      two.code("a@example.com", "123456"),
      one.code("b@example.com", "123456"),
      one.code("a@example.com", "123457"),
      one.address("a@example.com"),
      two.address("a@example.com"),
    ].map((hash) => hash.toString("hex"));
    expect(new Set(hashes).size).toBe(hashes.length);
    expect(one.code("a@example.com", "123456").toString("hex")).toBe(hashes[0]);
  });

  test("newCode returns six digits, including leading zeros", () => {
    const codes = Array.from({ length: 20_000 }, newCode);
    expect(codes.every((code) => /^\d{6}$/.test(code))).toBe(true);
    expect(codes.some((code) => code.startsWith("0"))).toBe(true);
    expect(new Set(codes).size).toBeGreaterThan(19_000);
  });
});
