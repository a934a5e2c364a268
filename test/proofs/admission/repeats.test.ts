import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD as price } from "../../../src/accounts/ledger/amounts.ts";
import { sqlState } from "../../../src/db/errors.ts";
import { createBatcher } from "../../../src/proofs/admission/batch.ts";
import { createRecordedFinder } from "../../../src/proofs/admission/repeats.ts";
import { decideBatch } from "../../../src/proofs/decide/decision.ts";
import type { DecisionItem } from "../../../src/proofs/decide/decision_item.ts";
import { acceptPrincipal } from "../../support/accepted_principals.ts";
import { decisionWorld, placeOf } from "../decision_world.ts";
import { insertRecords, itemFor, type Records } from "../records.ts";

const world = decisionWorld();
const { decideOne, balanceOf, countOf, spentOf } = world;

function boundItem(records: Records, id: string, changes: Partial<DecisionItem> = {}): DecisionItem {
  return itemFor(records, { invocation: { id, operationHash: Buffer.alloc(32, 7) }, ...changes });
}

const kindsOf = async (items: DecisionItem[]) =>
  (await decideBatch(world.pool, items)).map(({ kind }) => kind);

function recorded({ accountId, connectionId }: Records, id: string) {
  const caller = {
    accountId,
    principalAccountId: accountId,
    isCustomer: false,
    connectionId,
    keyPrefix: "",
    verifierId: "",
    registryAnswers: false,
    role: "full" as const,
    agentId: null,
    explanationValues: "full" as const,
  };
  return createRecordedFinder(world.db)(caller, id);
}

describe("a decision on an invocation id", () => {
  test("happens for the first item with this id in a batch, and the other items' challenges stay unspent", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const items = ["a", "b", "a", "b", "a"].map((id) => boundItem(records, id));
    const taken = "invocation_taken";
    expect(await kindsOf(items)).toEqual(["decided", "decided", taken, taken, taken]);
    expect([await spentOf(records), await balanceOf(records)]).toEqual([2, 8 * price]);
    expect(await countOf("audit_events", records)).toBe(2);
  });

  test("does not affect items without an invocation in the same batch", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const items = [itemFor(records), boundItem(records, "a"), itemFor(records), boundItem(records, "a")];
    expect(await kindsOf(items)).toEqual(["decided", "decided", "decided", "invocation_taken"]);
    expect(await balanceOf(records)).toBe(7 * price);
  });

  test("does not apply to the same id at a different connection of the account, in the same batch or later", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const others = [1, 2].map(() => ({ ...records, connectionId: randomUUID() }));
    const [second, third] = others as [Records, Records];
    expect(await kindsOf([boundItem(records, "a"), boundItem(second, "a")])).toEqual(["decided", "decided"]);
    expect(await kindsOf([boundItem(third, "a")])).toEqual(["decided"]);
    for (const each of [records, second, third]) expect(await recorded(each, "a")).toBeDefined();
    expect(await recorded({ ...records, connectionId: randomUUID() }, "a")).toBeUndefined();
  });

  test("spends no challenge and no credit when it is repeated", async () => {
    const records = await insertRecords(world.db, 10 * price);
    await decideOne(boundItem(records, "a"));
    expect(await kindsOf([boundItem(records, "a"), itemFor(records)])).toEqual([
      "invocation_taken",
      "decided",
    ]);
    expect([await spentOf(records), await balanceOf(records)]).toEqual([2, 8 * price]);
  });

  test("belongs to the next proof if the first proof's challenge is spent", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const challenge = randomBytes(32);
    await decideOne(itemFor(records, { challenge }));
    const items = [boundItem(records, "a", { challenge }), boundItem(records, "a")];
    expect(await kindsOf(items)).toEqual(["challenge_spent", "invocation_taken"]);
    expect(await recorded(records, "a")).toBeUndefined();
    expect(await decideOne(items[1] as DecisionItem)).toMatchObject({ kind: "decided" });
  });

  test("fails for all concurrent items of an account without credit, but not for other accounts", async () => {
    const [poor, rich] = [await insertRecords(world.db, price - 1), await insertRecords(world.db, 2 * price)];
    await decideOne(boundItem(rich, "a"));
    const items = [boundItem(poor, "a"), boundItem(rich, "a"), boundItem(poor, "a"), boundItem(rich, "b")];
    const out = "credits_exhausted";
    expect(await kindsOf(items)).toEqual([out, "invocation_taken", out, "decided"]);
    expect(await spentOf(poor)).toBe(0);
    expect(await recorded(poor, "a")).toBeUndefined();
  });

  test("stays possible after an indeterminate decision", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const unknown = [{ accountId: records.accountId, certId: `cert-${randomUUID()}` }];
    expect(await decideOne(boundItem(records, "a", { certificates: unknown }))).toMatchObject({
      decision: "indeterminate",
    });
    expect(await recorded(records, "a")).toBeUndefined();
    expect(await decideOne(boundItem(records, "a"))).toMatchObject({ decision: "allow" });
  });

  test.each([
    ["of an unknown root", "untrusted_root"],
    ["of a root that is not accepted", "principal_not_accepted"],
  ] as const)("stays possible after a proof %s, in the same batch or earlier", async (_, reason) => {
    const [shop, stranger] = [
      await insertRecords(world.db, 10 * price),
      await insertRecords(world.db, 10 * price),
    ];
    const own = { accountId: shop.accountId, connectionId: shop.connectionId };
    const by = (id: string) =>
      reason === "principal_not_accepted"
        ? boundItem(stranger, id, own)
        : boundItem(stranger, id, {
            ...own,
            ...({ decision: "deny", reason, errorReason: reason } as const),
            rootAccountId: null,
            certificates: [],
          });
    const spent = by("a");
    expect(await decideOne(spent)).toMatchObject({ decision: "deny", reason });
    expect(await recorded(shop, "a")).toBeUndefined();
    expect(await decideOne(spent)).toEqual({ kind: "challenge_spent" });
    expect(await balanceOf(shop)).toBe(9 * price);
    expect(await decideOne(boundItem(shop, "a"))).toMatchObject({ decision: "allow" });
    const both = await decideBatch(world.pool, [by("b"), boundItem(shop, "b")]);
    expect(both).toMatchObject([{ reason }, { decision: "allow" }]);
    for (const id of ["a", "b"]) expect(await recorded(shop, id)).toMatchObject({ decision: "allow" });
    expect(await balanceOf(shop)).toBe(6 * price);
  });

  test("occurs only once if proofs of two accepted roots request it concurrently", async () => {
    const [shop, other] = [
      await insertRecords(world.db, 10 * price),
      await insertRecords(world.db, 10 * price),
    ];
    const own = { accountId: shop.accountId, connectionId: shop.connectionId };
    await acceptPrincipal(world.db, shop, other, { created_at: new Date() });
    const decide = createBatcher(placeOf(world.pool));
    const items = [boundItem(shop, "a"), boundItem(other, "a", own)];
    const kinds = await Promise.all(
      items.map((item) =>
        decide(item).then(
          ({ kind }) => kind,
          (error) => sqlState(error),
        ),
      ),
    );
    expect(kinds.filter((kind) => kind === "decided")).toHaveLength(1);
    expect(await kindsOf(items.map((item) => ({ ...item, challenge: randomBytes(32) })))).toEqual([
      "invocation_taken",
      "invocation_taken",
    ]);
    expect(await balanceOf(shop)).toBe(9 * price);
  });

  test("has the pure rules' wording as its reason if these rules decided, and otherwise a reason from stored state", async () => {
    const records = await insertRecords(world.db, 10 * price);
    const refused = { decision: "deny", reason: "not_delegated", errorReason: "scope_denied: x" } as const;
    await decideOne(boundItem(records, "allowed"));
    await decideOne(boundItem(records, "ruled", refused));
    await world.db("certificates").where({ cert_id: records.certId }).update({ status: "revoked" });
    await decideOne(boundItem(records, "revoked", refused));
    const reasons = ["allowed", "ruled", "revoked"].map(
      async (id) => (await recorded(records, id))?.error_reason,
    );
    expect(await Promise.all(reasons)).toEqual([null, "scope_denied: x", "delegation_revoked"]);
  });

  test.each(["NULL", "null", "\\", '"', "{a,b}", "a b", "é", "e\u0301", "漢".repeat(256)])(
    "keeps the id unchanged: %s",
    async (id) => {
      const records = await insertRecords(world.db, 10 * price);
      const ids = ["a", id, "z"];
      expect(await kindsOf(ids.map((each) => boundItem(records, each)))).toEqual(ids.map(() => "decided"));
      const rows = await world
        .db("invocations")
        .where({ account_id: records.accountId })
        .select("invocation_id");
      expect(rows.map(({ invocation_id }) => invocation_id).sort()).toEqual(ids.sort());
      expect(await kindsOf([boundItem(records, id)])).toEqual(["invocation_taken"]);
    },
  );
});
