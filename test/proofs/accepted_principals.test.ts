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

/** A genuine proof of the stranger's agent, shown to the shop. */
const shown = (changes: Parameters<typeof itemFor>[1] = {}) =>
  itemFor(stranger, { accountId: shop.accountId, connectionId: shop.connectionId, ...changes });

/** The shop accepts the stranger's `data:read`, or other scopes, for ever or until then. */
const accept = (acceptance: { scopes?: string[]; accepted_until?: Date } = {}) =>
  acceptPrincipal(world.db, shop, stranger, { created_at: decidedAt, ...acceptance });

const historyOf = ({ accountId }: Records) => world.db("audit_events").where({ account_id: accountId });

/** What a decision looks like whose receipt grants reading, and nothing else. */
const GRANTS_READ = { receipt: expect.stringContaining('"granted_scope":["data:read"]') };

describe("the authority of another account", () => {
  test("does not count: denied, recorded and charged like every denial", async () => {
    expect(await decideOne(shown())).toMatchObject({ decision: "deny", reason: "principal_not_accepted" });
    expect(await balanceOf(shop)).toBe(9 * price);
    expect(await historyOf(shop)).toMatchObject([
      { event_type: "proof.rejected", decision_reason: "principal_not_accepted", verifier_account_id: null },
    ]);
  });

  test("is judged first: nothing is said of the state of its certificates", async () => {
    await world.db("certificates").where({ cert_id: stranger.certId }).update({ status: "revoked" });
    const expected = { decision: "deny", reason: "principal_not_accepted" };
    expect(await decideOne(shown())).toMatchObject(expected);
    expect(await decideOne(shown({ decision: "deny", reason: "delegation_expired" }))).toMatchObject(
      expected,
    );
    const certificates = [{ accountId: stranger.accountId, certId: "cert-unknown" }];
    expect(await decideOne(shown({ certificates }))).toMatchObject(expected);
  });

  test("counts where it is accepted, for the accepted scopes and no others", async () => {
    await accept({ scopes: ["data:read", "payments:send"] });
    expect(await decideOne(shown())).toMatchObject({ decision: "allow", reason: "authorized" });
    expect(await decideOne(shown({ requiredScope: "data:share" }))).toMatchObject({
      decision: "deny",
      reason: "principal_not_accepted",
    });
  });

  test("is accepted by the connection that named it alone, and of the root that was named alone", async () => {
    await accept();
    const other = await insertRecords(world.db, 10 * price);
    const elsewhere = { accountId: other.accountId, connectionId: other.connectionId };
    expect(await decideOne(itemFor(stranger, elsewhere))).toMatchObject({ reason: "principal_not_accepted" });
    const third = { rootAccountId: other.accountId, humanId: other.humanId };
    expect(await decideOne(shown(third))).toMatchObject({ reason: "principal_not_accepted" });
  });

  test("is not accepted for another root that comes in the same batch", async () => {
    await accept();
    const other = await insertRecords(world.db, 10 * price);
    const third = { rootAccountId: other.accountId, humanId: other.humanId };
    expect(await decideBatch(world.pool, [shown(), shown(third)])).toMatchObject([
      { decision: "allow" },
      { decision: "deny", reason: "principal_not_accepted" },
    ]);
  });

  test("is accepted before its end and not at it", async () => {
    await accept({ accepted_until: addSeconds(decidedAt, 60) });
    const at = (seconds: number) => decideOne(shown({ decidedAt: addSeconds(decidedAt, seconds) }));
    expect(await at(59.999)).toMatchObject({ decision: "allow" });
    expect(await at(60)).toMatchObject({ decision: "deny", reason: "principal_not_accepted" });
  });

  test("where it is accepted, a revoked certificate is denied as revoked", async () => {
    await accept();
    await world.db("certificates").where({ cert_id: stranger.certId }).update({ status: "revoked" });
    expect(await decideOne(shown())).toMatchObject({ decision: "deny", reason: "delegation_revoked" });
  });

  test("grants in the receipt what is both granted and accepted", async () => {
    await accept({ scopes: ["data:read", "data:share"] });
    expect(await decideOne(shown())).toMatchObject(GRANTS_READ);
    const [row] = await historyOf(shop);
    expect(row?.receipt).toContain('"granted_scope":["data:read"]');
  });

  test("with a ceiling that shrank grants what all three allow", async () => {
    await accept({ scopes: ["data:read", "payments:send"] });
    const ceiling = { ceiling_scope: ["data:read"] };
    await world.db("certificates").where({ cert_id: stranger.certId }).update(ceiling);
    expect(await decideOne(shown())).toMatchObject(GRANTS_READ);
  });

  test("in a batch is judged item by item", async () => {
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

describe("the end of an acceptance", () => {
  test("waits for the decision that has read it, and the next one is denied", async () => {
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

  test("that is not yet committed keeps a decision waiting, which then denies", async () => {
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

describe("the account whose authority was used elsewhere", () => {
  test.each([
    ["allowed", true],
    ["denied", false],
  ])(
    "has a row of its own when it is %s: who decided on what, without receipt and charge",
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

  test("is told which of the verifier's platforms decided", async () => {
    const { accountId } = shop;
    const { connectionId } = await insertRecords(world.db, 0);
    const { platform_id } = (await world.db("connections").where({ connection_id: connectionId }).first())!;
    await world.db("connections").where({ platform_id }).update({ account_id: accountId });
    await world.db("platforms").where({ platform_id }).update({ account_id: accountId, name: "bank" });
    for (const changes of [{}, { connectionId }]) await decideOne(shown(changes));
    const told = (await historyOf(stranger)).map((row) => [row.connection_id, row.verifier_platform_name]);
    expect(new Map(told as [string, string][])).toEqual(
      new Map([
        [shop.connectionId, "shop"],
        [connectionId, "bank"],
      ]),
    );
  });

  test("has none of its own decisions twice, and none of a root that no account has", async () => {
    await decideOne(itemFor(stranger));
    expect(await historyOf(stranger)).toHaveLength(1);
    const untrusted = { rootAccountId: null, decision: "deny", reason: "untrusted_root" } as const;
    await decideOne(shown({ ...untrusted, certificates: [] }));
    expect(await historyOf(stranger)).toHaveLength(1);
    expect(await historyOf(shop)).toMatchObject([{ decision_reason: "untrusted_root" }]);
  });

  test("has it counted once against a certificate's rate", async () => {
    await accept();
    await decideOne(shown());
    await decideOne(itemFor(stranger));
    const count = countAllowsBefore(world.pool, addSeconds(decidedAt, 1));
    expect(await count(stranger.certId, 60)).toBe(2);
  });
});
