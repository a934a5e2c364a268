import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { proofApi } from "../proofs/application.ts";
import { errorCode } from "../support/platform_world.ts";

const world = proofApi();
const PATH = "/v1/service/receipts/check";

async function decided() {
  const app = await world.application();
  const { body } = await app.verify(await app.proof(), { required_scope: "data:read" });
  const receipt = body.receipt as Record<string, unknown>;
  const check = async (sent: unknown, { client } = app.person) => client.post(PATH, { receipt: sent });
  return { app, receipt, hash: body.receipt_hash, check };
}

describe("POST …/receipts/check", () => {
  test("confirms a receipt from verify, with its fields in any order", async () => {
    const { receipt, hash, check } = await decided();
    expect((await check(receipt)).body).toEqual({ genuine: true, receipt_hash: hash });
    const turned = Object.fromEntries(Object.entries(receipt).reverse());
    expect((await check(turned)).body).toEqual({ genuine: true, receipt_hash: hash });
  });

  test("accepts any signed-in person, and nobody else", async () => {
    const { receipt, check } = await decided();
    expect((await check(receipt, await world.api.person())).body.genuine).toBe(true);
    expect(errorCode(await world.api.client().post(PATH, { receipt }))).toBe("auth_required");
  });

  test("rejects a receipt with a changed, missing or additional field", async () => {
    const { receipt, check } = await decided();
    const changed = Object.keys(receipt).flatMap((field) => {
      const { [field]: _, ...rest } = receipt;
      return [{ ...receipt, [field]: "x" }, { ...receipt, [field]: null }, rest];
    });
    const another = await decided();
    const others = [
      ...changed,
      { ...receipt, more: 1 },
      { ...receipt, receipt_id: another.receipt.receipt_id },
      { ...receipt, connection_id: randomUUID() },
      {},
    ];
    for (const each of others) {
      const answer = await check(each);
      expect([each, answer.status, answer.body.genuine]).toEqual([each, 200, false]);
    }
  });

  test("never fails with a server error for input that cannot be a receipt", async () => {
    const { check } = await decided();
    for (const wrong of ["text", null, [1], undefined]) expect((await check(wrong)).status).toBe(400);
    let deep: unknown = 1;
    for (let depth = 0; depth < 20; depth += 1) deep = [deep];
    const odd = [{ deep }, { number: 1.5 }, { text: "\u2028" }];
    expect(errorCode(await check({ number: 1e300 }))).toBe("invalid_request");
    for (const each of odd) expect((await check(each)).body.genuine).toBe(false);
  });

  test("does not confirm a decision at a different account's platform, for which no hash is stored", async () => {
    const { app, receipt, check } = await decided();
    await world.api
      .db("audit_events")
      .where({ account_id: app.person.accountId, event_id: String(receipt.receipt_id) })
      .update({ receipt: null, receipt_hash: null });
    expect((await check(receipt)).body.genuine).toBe(false);
  });
});
