import { beforeEach, describe, expect, test } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD as price } from "../../src/accounts/ledger/amounts.ts";
import { addSeconds } from "../../src/clock.ts";
import { countAllowsBefore } from "../../src/proofs/admission/certificate_rate.ts";
import { decideBatch } from "../../src/proofs/decide/decision.ts";
import { acceptPrincipal } from "../support/accepted_principals.ts";
import { decisionWorld } from "./decision_world.ts";
import { insertRecords, itemFor, type Records } from "./records.ts";

const world = decisionWorld();
const { decideOne, balanceOf, countOf } = world;
const decidedAt = new Date("2026-01-01T00:00:00.000Z");

let shop: Records;
let stranger: Records;

beforeEach(async () => {
  shop = await insertRecords(world.db, 10 * price);
  stranger = await insertRecords(world.db, 10 * price);
});

/** Returns an item for a proof of the agent in account `stranger`, presented to `shop`. */
const shown = (changes: Parameters<typeof itemFor>[1] = {}) =>
  itemFor(stranger, { accountId: shop.accountId, connectionId: shop.connectionId, ...changes });

/** By default, `shop` accepts `data:read` from `stranger` permanently. */
const accept = (acceptance: { scopes?: string[]; accepted_until?: Date } = {}) =>
  acceptPrincipal(world.db, shop, stranger, { created_at: decidedAt, ...acceptance });

const historyOf = ({ accountId }: Records) => world.db("audit_events").where({ account_id: accountId });

const GRANTS_READ = { receipt: expect.stringContaining('"granted_scope":["data:read"]') };

describe("a decision about another account's authority", () => {
  test("denies unless the verifier accepts the authority, and the denial is recorded and charged", async () => {
    expect(await decideOne(shown())).toMatchObject({ decision: "deny", reason: "principal_not_accepted" });
    expect(await balanceOf(shop)).toBe(9 * price);
    expect(await historyOf(shop)).toMatchObject([
      { event_type: "proof.rejected", decision_reason: "principal_not_accepted", verifier_account_id: null },
    ]);
  });

  test("denies without reading the certificates' state, so that the denial reveals nothing about this state", async () => {
    await world.db("certificates").where({ cert_id: stranger.certId }).update({ status: "revoked" });
    const expected = { decision: "deny", reason: "principal_not_accepted" };
    expect(await decideOne(shown())).toMatchObject(expected);
    expect(await decideOne(shown({ decision: "deny", reason: "delegation_expired" }))).toMatchObject(
      expected,
    );
    const certificates = [{ accountId: stranger.accountId, certId: "cert-unknown" }];
    expect(await decideOne(shown({ certificates }))).toMatchObject(expected);
  });

  test("keeps a denial's explanation in both histories, unless stored state denies for another reason", async () => {
    await accept();
    const explanation = { rule: "constraints", constraint: "max_rate" };
    const denied = { decision: "deny", reason: "constraint_denied" } as const;
    const text = JSON.stringify(explanation);
    const decided = await decideOne(shown({ ...denied, explanation: text }));
    expect(decided).toMatchObject({
      receipt: expect.stringContaining(`"explanation":${text},"granted_scope":[]`),
    });
    for (const account of [shop, stranger]) expect(await historyOf(account)).toMatchObject([{ explanation }]);
    await world.db("certificates").where({ cert_id: stranger.certId }).update({ status: "revoked" });
    const revoked = await decideOne(shown({ ...denied, explanation: text }));
    expect(revoked).toMatchObject({
      reason: "delegation_revoked",
      receipt: expect.not.stringContaining("max_rate"),
    });
    for (const account of [shop, stranger]) {
      const rows = await historyOf(account).where({ decision_reason: "delegation_revoked" });
      expect(rows).toMatchObject([{ explanation: { rule: "not_revoked" } }]);
    }
  });

  test("allows only the accepted scopes if the verifier accepts the authority", async () => {
    await accept({ scopes: ["data:read", "payments:send"] });
    expect(await decideOne(shown())).toMatchObject({ decision: "allow", reason: "authorized" });
    expect(await decideOne(shown({ requiredScope: "data:share" }))).toMatchObject({
      decision: "deny",
      reason: "principal_not_accepted",
    });
  });

  test("allows only at the connection that accepted the root, and only for the accepted root", async () => {
    await accept();
    const other = await insertRecords(world.db, 10 * price);
    const elsewhere = { accountId: other.accountId, connectionId: other.connectionId };
    expect(await decideOne(itemFor(stranger, elsewhere))).toMatchObject({ reason: "principal_not_accepted" });
    const third = { rootAccountId: other.accountId, humanId: other.humanId };
    expect(await decideOne(shown(third))).toMatchObject({ reason: "principal_not_accepted" });
  });

  test("does not apply an acceptance to a different root in the same batch", async () => {
    await accept();
    const other = await insertRecords(world.db, 10 * price);
    const third = { rootAccountId: other.accountId, humanId: other.humanId };
    expect(await decideBatch(world.pool, [shown(), shown(third)])).toMatchObject([
      { decision: "allow" },
      { decision: "deny", reason: "principal_not_accepted" },
    ]);
  });

  test("allows until an acceptance expires, and denies from then on", async () => {
    await accept({ accepted_until: addSeconds(decidedAt, 60) });
    const at = (seconds: number) => decideOne(shown({ decidedAt: addSeconds(decidedAt, seconds) }));
    expect(await at(59.999)).toMatchObject({ decision: "allow" });
    expect(await at(60)).toMatchObject({ decision: "deny", reason: "principal_not_accepted" });
  });

  test("denies a revoked certificate of an accepted root with the reason for revocation", async () => {
    await accept();
    await world.db("certificates").where({ cert_id: stranger.certId }).update({ status: "revoked" });
    expect(await decideOne(shown())).toMatchObject({ decision: "deny", reason: "delegation_revoked" });
  });

  test("lists in its receipt only scopes that are both granted and accepted", async () => {
    await accept({ scopes: ["data:read", "data:share"] });
    expect(await decideOne(shown())).toMatchObject(GRANTS_READ);
    const [row] = await historyOf(shop);
    expect(row?.receipt).toContain('"granted_scope":["data:read"]');
  });

  test("grants only scopes that the chain, the acceptance and a reduced ceiling all allow", async () => {
    await accept({ scopes: ["data:read", "payments:send"] });
    const ceiling = { ceiling_scope: ["data:read"] };
    await world.db("certificates").where({ cert_id: stranger.certId }).update(ceiling);
    expect(await decideOne(shown())).toMatchObject(GRANTS_READ);
  });

  test("does not depend on the other items in the batch", async () => {
    await accept();
    const outcomes = await Promise.all(
      [shown(), itemFor(shop), shown({ requiredScope: "data:share" }), itemFor(stranger)].map(decideOne),
    );
    expect(outcomes).toMatchObject([
      { decision: "allow" },
      { decision: "allow" },
      { reason: "principal_not_accepted" },
      { decision: "allow" },
    ]);
  });
});

describe("withdrawing an acceptance", () => {
  test("waits for the decision that has read the acceptance, and makes the next decision a denial", async () => {
    await accept();
    const decided = await world.hold("select from accepted_principals where connection_id = $1 for share", [
      shop.connectionId,
    ]);
    let ended = false;
    const ending = world
      .db("accepted_principals")
      .where({ connection_id: shop.connectionId })
      .delete()
      .then(() => {
        ended = true;
      });
    await world.untilBlocked();
    expect(ended).toBe(false);
    await decided.commit();
    await ending;
    expect(await decideOne(shown())).toMatchObject({ decision: "deny", reason: "principal_not_accepted" });
  });

  test("makes a concurrent decision wait for the commit, and turns this decision into a denial", async () => {
    await accept();
    const ending = await world.hold("delete from accepted_principals where connection_id = $1", [
      shop.connectionId,
    ]);
    const deciding = decideOne(shown());
    await world.untilBlocked();
    await ending.commit();
    expect(await deciding).toMatchObject({ decision: "deny", reason: "principal_not_accepted" });
  });
});

describe("the history of an account whose authority was used at a different account", () => {
  test.each([
    ["allowed", true],
    ["denied", false],
  ])(
    "contains a decision that was %s, with the verifier's names but without receipt and charge",
    async (_, allowed) => {
      if (allowed) await accept();
      const item = shown();
      const outcome = await decideOne(item);
      expect(await historyOf(stranger)).toMatchObject([
        {
          event_id: item.eventId,
          occurred_at: decidedAt,
          event_type: allowed ? "proof.verified" : "proof.rejected",
          connection_id: shop.connectionId,
          agent_id: stranger.agentId,
          cert_id: stranger.certId,
          required_scope: "data:read",
          decision: allowed ? "allow" : "deny",
          decision_reason: outcome?.kind === "decided" ? outcome.reason : "",
          receipt: null,
          receipt_hash: null,
          verifier_account_id: shop.accountId,
          verifier_platform_name: "shop",
          verifier_organization_name: null,
        },
      ]);
      expect(await historyOf(shop)).toMatchObject([
        { verifier_account_id: null, verifier_platform_name: null, verifier_organization_name: null },
      ]);
      expect(await balanceOf(stranger)).toBe(10 * price);
      expect(await countOf("ledger_postings", stranger)).toBe(0);
    },
  );

  test("names the verifier's platform that made the decision", async () => {
    const { accountId } = shop;
    const { connectionId } = await insertRecords(world.db, 0);
    const row = await world.db("connections").where({ connection_id: connectionId }).first();
    const platform_id = row!.platform_id!;
    await world.db("connections").where({ platform_id }).update({ account_id: accountId });
    await world.db("platforms").where({ platform_id }).update({ account_id: accountId, name: "bank" });
    for (const changes of [{}, { connectionId }]) await decideOne(shown(changes));
    const named = (await historyOf(stranger)).map((row) => [row.connection_id, row.verifier_platform_name]);
    expect(new Map(named as [string, string][])).toEqual(
      new Map([
        [shop.connectionId, "shop"],
        [connectionId, "bank"],
      ]),
    );
  });

  test("contains each of the account's own decisions once, and no decision about a root that belongs to no account", async () => {
    await decideOne(itemFor(stranger));
    expect(await historyOf(stranger)).toHaveLength(1);
    const untrusted = { rootAccountId: null, decision: "deny", reason: "untrusted_root" } as const;
    await decideOne(shown({ ...untrusted, certificates: [] }));
    expect(await historyOf(stranger)).toHaveLength(1);
    expect(await historyOf(shop)).toMatchObject([{ decision_reason: "untrusted_root" }]);
  });

  test("counts each decision once toward a certificate's rate limit", async () => {
    await accept();
    await decideOne(shown());
    await decideOne(itemFor(stranger));
    const count = countAllowsBefore(world.pool, addSeconds(decidedAt, 1));
    expect(await count(stranger.certId, 60)).toBe(2);
  });
});
