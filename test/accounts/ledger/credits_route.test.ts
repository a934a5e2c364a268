import { expect, test } from "vitest";
import { grantCredits } from "../../../src/accounts/ledger/grants.ts";
import { setScene } from "../../http/walk/scene.ts";
import { wholeApi } from "../../http/walk/world.ts";

const api = wholeApi({ config: { ALPHA_CREDITS_MICRO_USD: 10_000_000 } });
const PATH = "/v1/service/credits";
const LATER = new Date("2090-01-01T00:00:00.000Z");

test("a person sees the balance, the price, the threshold for low credit, and every posting, newest first", async () => {
  const { person } = await setScene(api);
  const grant = { accountId: person.accountId, amount: 5_000_000, reason: "paid", reference: "inv-1" };
  await grantCredits(api.db, grant, LATER);
  const { status, body } = await person.client.get(PATH);
  expect(status).toBe(200);
  // The clock is stopped, so the earlier postings all have the same time and are sorted by id.
  const earlier = (body.items as { kind: string; amount_micro_usd: number }[]).slice(1);
  expect(new Map(earlier.map((item) => [item.kind, item.amount_micro_usd]))).toEqual(
    new Map([
      ["verification", -2_000],
      ["alpha_credit", 10_000_000],
    ]),
  );
  expect(body).toEqual({
    balance_micro_usd: 14_998_000,
    balance_usd: "14.998",
    price_micro_usd: 2_000,
    low_at_micro_usd: 2_999_600,
    currency: "USD",
    terms: "prepaid",
    items: [
      {
        posting_id: expect.stringMatching(/^[0-9a-f]{64}$/),
        posted_at: LATER.toISOString(),
        kind: "grant",
        amount_micro_usd: 5_000_000,
        reason: "paid",
        reference: "inv-1",
      },
      ...earlier,
    ],
    next_cursor: null,
  });
});

test("pages list every posting of the account exactly once, including postings with the same time", async () => {
  const [{ person }, other] = [await setScene(api), await setScene(api)];
  const references = Array.from({ length: 5 }, (_, n) => `page-${n}`);
  for (const reference of references) {
    await grantCredits(api.db, { accountId: person.accountId, amount: 1, reason: "r", reference }, LATER);
  }
  const seen: unknown[] = [];
  let cursor: unknown = "";
  while (cursor !== null) {
    const { body } = await person.client.get(`${PATH}?limit=2${cursor === "" ? "" : `&cursor=${cursor}`}`);
    seen.push(...(body.items as Record<string, unknown>[]).map((item) => item.reference ?? item.kind));
    cursor = body.next_cursor;
  }
  expect(seen.slice(0, 5).toSorted()).toEqual(references);
  expect(seen.slice(5).toSorted()).toEqual(["alpha_credit", "verification"]);
  const { body } = await other.person.client.get(PATH);
  expect(body.items).toHaveLength(2);
});

test("an API key sees the balance that pays for its decisions, but no postings", async () => {
  const scene = await setScene(api);
  const { status, body } = await scene.keyed("GET", `${PATH}?limit=1`);
  expect(status).toBe(200);
  expect(body).toEqual({
    balance_micro_usd: 9_998_000,
    balance_usd: "9.998",
    price_micro_usd: 2_000,
    low_at_micro_usd: 2_000_000,
    currency: "USD",
    terms: "prepaid",
  });
});

test("a cursor from a different list is refused, and so is text that is not a cursor", async () => {
  const { person } = await setScene(api);
  const { body } = await person.client.get("/v1/service/platforms?limit=1");
  const strange = Buffer.from('["2026-01-01T00:00:00.000000Z","01980f3e-6b1c-7d52-9a3e-5c1f7e20b846"]');
  expect(body.items).toHaveLength(1);
  for (const cursor of [strange.toString("base64url"), "x"]) {
    const answer = await person.client.get(`${PATH}?cursor=${cursor}`);
    expect([answer.status, answer.body]).toMatchObject([400, { error: { code: "invalid_request" } }]);
  }
});
