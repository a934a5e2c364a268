import { afterEach, describe, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { createCertificateLocks } from "../../../src/proofs/admission/certificate_rate.ts";
import { decideBatch } from "../../../src/proofs/decide/decision.ts";
import { challengeDay, issueChallenge } from "../../../src/proofs/present/challenge.ts";
import { readVerifyCall } from "../../../src/proofs/verify/call.ts";
import { verifyProof } from "../../../src/proofs/verify/verify_proof.ts";
import { acceptPrincipal } from "../../support/accepted_principals.ts";
import type { ProofWorld } from "../../support/proof_world.ts";
import { placeOf } from "../decision_world.ts";
import { itemFor } from "../records.ts";
import { callerOf, codeOf, now, verifyWorld } from "../verify_world.ts";

const service = verifyWorld();
const { account, verify, decisionOf, openPool, countOf, spentOf } = service;
const rate = (count: number, window_s: number) => [{ type: "max_rate" as const, count, window_s }];

async function shownTo(verifier: ProofWorld, agent: ProofWorld, deps = service.deps) {
  const key = await deps.keys.forIssuing(challengeDay(now), now);
  const challenge = issueChallenge(key, verifier.connectionId, now);
  const body = { proof_bundle: await agent.prove({ now, challenge }), required_scope: "data:read" };
  const call = readVerifyCall(callerOf(verifier), Buffer.from(JSON.stringify(body)), undefined);
  const { decision, reason } = await verifyProof(deps, call);
  return `${decision} ${reason}`;
}

const accept = (verifier: ProofWorld, principal: ProofWorld, fields: { accepted_until?: Date } = {}) =>
  acceptPrincipal(service.db, verifier, principal, { created_at: now, ...fields });

afterEach(() => service.clock.set(now));

describe("a max_rate constraint", () => {
  test("allows exactly 5 of 24 concurrent proofs with a limit of 5 per hour, and one more after the hour", async () => {
    const rated = await account({ constraints: rate(5, 3600) });
    const bundles = await Promise.all(Array.from({ length: 24 }, () => rated.prove({ now })));
    const decisions = await Promise.all(bundles.map((bundle) => decisionOf(bundle, { as: rated })));
    expect(decisions.filter((decision) => decision === "allow authorized")).toHaveLength(5);
    expect(decisions.filter((decision) => decision === "deny constraint_denied")).toHaveLength(19);
    const later = addSeconds(now, 3600);
    service.clock.set(later);
    expect(await decisionOf(await rated.prove({ now: later }), { as: rated })).toBe("allow authorized");
  });
});

describe("the check of a max_rate constraint", () => {
  const certificateOf = ({ certificate }: ProofWorld) => [certificate.cert_id];
  const lock = "select from certificates where cert_id = $1 for update";

  test("neither counts nor waits if the verifier does not accept the issuer's account", async () => {
    const [shop, stranger] = [await account(), await account({ constraints: rate(1, 3600) })];
    const held = await service.hold(lock, certificateOf(stranger));
    expect(await shownTo(shop, stranger)).toBe("deny principal_not_accepted");
    await accept(shop, stranger, { accepted_until: now });
    expect(await shownTo(shop, stranger)).toBe("deny principal_not_accepted");
    await held.commit();
    expect(await countOf("audit_events", stranger)).toBe(2);
    expect(await countOf("ledger_postings", shop)).toBe(2);
  });

  test("does not wait if a different rule also denies the proof", async () => {
    const amount = { type: "max_amount" as const, max_amount: 10, currency: "EUR" };
    const shop = await account();
    const stranger = await account({ constraints: [amount, ...rate(1, 3600)] });
    const held = await service.hold(lock, certificateOf(stranger));
    const bundle = await stranger.prove({ now, shownTo: shop.connectionId });
    const over = { as: shop, context: { amount: 11, currency: "EUR" } };
    expect(await decisionOf(bundle, over)).toBe("deny principal_not_accepted");
    await held.commit();
  });

  test("denies if the issuer's account is accepted only after the lookup, because no uses were counted", async () => {
    const [shop, stranger] = [await account(), await account({ constraints: rate(1, 3600) })];
    const isAccepted = async () => {
      await accept(shop, stranger);
      return false;
    };
    expect(await shownTo(shop, stranger, { ...service.deps, isAccepted })).toBe(
      "deny principal_not_accepted",
    );
    expect(await shownTo(shop, stranger)).toBe("allow authorized");
    expect(await shownTo(shop, stranger)).toBe("deny constraint_denied");
  });

  test("counts uses if the acceptance of the issuer's account expires later", async () => {
    const [shop, stranger] = [await account(), await account({ constraints: rate(1, 3600) })];
    await accept(shop, stranger, { accepted_until: addSeconds(now, 1) });
    expect(await shownTo(shop, stranger)).toBe("allow authorized");
    expect(await shownTo(shop, stranger)).toBe("deny constraint_denied");
  });

  test("looks up no acceptance for the verifier's own certificates or for certificates without a rate limit", async () => {
    const rated = await account({ constraints: rate(5, 3600) });
    const isAccepted = () => Promise.reject(new Error("looked up"));
    expect(await shownTo(rated, rated, { ...service.deps, isAccepted })).toBe("allow authorized");
    const [shop, unrated] = [await account(), await account()];
    expect(await shownTo(shop, unrated, { ...service.deps, isAccepted })).toBe("deny principal_not_accepted");
  });

  test("lets calls from accounts other than the issuer's use at most half of the queue", async () => {
    const { accountId, certificate } = await account({ constraints: rate(1000, 3600) });
    const { promise: isOpen, resolve: open } = Promise.withResolvers<void>();
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
    const call = async (byOwner: boolean, until = isOpen) => {
      const certificates = [{ accountId, certId: certificate.cert_id }];
      const lock = await service.deps.lockCertificates({ certificates, byOwner, now });
      await until;
      await lock.end();
    };
    const waiting = Array.from({ length: 32 }, () => call(false));
    expect(await codeOf(call(false))).toBe("rate_limited");
    waiting.push(...Array.from({ length: 31 }, () => call(true)));
    const last = call(true, isOver);
    expect(await codeOf(call(true))).toBe("rate_limited");
    open();
    await Promise.all(waiting);
    const again = Array.from({ length: 32 }, () => codeOf(call(false)));
    end();
    await last;
    expect(new Set(await Promise.all(again))).toEqual(new Set(["no error"]));
  });
});

describe("counting uses for a max_rate constraint", () => {
  test("includes only allowed uses, not denials", async () => {
    const rated = await account({ constraints: rate(1, 3600) });
    expect(await decisionOf(await rated.prove({ now }), { as: rated, scope: "files:read" })).toBe(
      "deny not_delegated",
    );
    expect(await decisionOf(await rated.prove({ now }), { as: rated })).toBe("allow authorized");
    expect(await decisionOf(await rated.prove({ now }), { as: rated })).toBe("deny constraint_denied");
  });

  test("stays exact across two processes", async () => {
    const rated = await account({ constraints: rate(5, 3600) });
    const second = {
      ...service.deps,
      lockCertificates: createCertificateLocks(openPool("rates", { max: 4 }), placeOf(service.pool)),
    };
    const bundles = await Promise.all(Array.from({ length: 20 }, () => rated.prove({ now })));
    const decisions = await Promise.all(
      bundles.map(async (bundle, n) => {
        const body = Buffer.from(JSON.stringify({ proof_bundle: bundle, required_scope: "data:read" }));
        const deps = n % 2 === 0 ? service.deps : second;
        return verifyProof(deps, readVerifyCall(callerOf(rated), body, undefined));
      }),
    );
    expect(decisions.filter(({ decision }) => decision === "allow")).toHaveLength(5);
  });

  test("includes an allow decision that another process has not committed yet", async () => {
    const rated = await account({ constraints: rate(1, 3600) });
    const other = await service.pool.connect();
    await other.query("begin");
    const records = { ...rated, certId: rated.certificate.cert_id };
    const [first] = await decideBatch(other, [itemFor(records, { decidedAt: now })]);
    const second = decisionOf(await rated.prove({ now }), { as: rated });
    await service.untilBlocked();
    await other.query("commit");
    other.release();
    expect(first).toMatchObject({ decision: "allow" });
    expect(await second).toBe("deny constraint_denied");
  });

  test("does not delay calls with other certificates, however many calls wait for a busy certificate", async () => {
    const [busy, idle] = [
      await account({ constraints: rate(100, 3600) }),
      await account({ constraints: rate(100, 3600) }),
    ];
    const held = await service.hold("select from certificates where cert_id = $1 for update", [
      busy.certificate.cert_id,
    ]);
    const bundles = await Promise.all(Array.from({ length: 8 }, () => busy.prove({ now })));
    const waiting = bundles.map((bundle) => decisionOf(bundle, { as: busy }));
    await service.untilBlocked();
    const bundle = await idle.prove({ now });
    expect(await decisionOf(bundle, { as: idle })).toBe("allow authorized");
    await held.commit();
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(["allow authorized"]));
  });

  test("starts in 1970 if the rate limit's window would begin earlier", async () => {
    const rated = await account({ constraints: rate(1, Number.MAX_SAFE_INTEGER) });
    expect(await decisionOf(await rated.prove({ now }), { as: rated })).toBe("allow authorized");
    expect(await decisionOf(await rated.prove({ now }), { as: rated })).toBe("deny constraint_denied");
  });

  test("refuses the 65th waiting call, and accepts an additional call once a waiting call has finished", async () => {
    const { accountId, certificate } = await account({ constraints: rate(1000, 3600) });
    const counting = {
      certificates: [{ accountId, certId: certificate.cert_id }],
      byOwner: true,
      now,
    };
    const call = async (until: Promise<void>) => {
      const lock = await service.deps.lockCertificates(counting);
      await until;
      await lock.end();
    };
    const { promise: isOpen, resolve: open } = Promise.withResolvers<void>();
    const waiting = Array.from({ length: 64 }, () => call(isOpen));
    expect(await codeOf(call(isOpen))).toBe("rate_limited");
    open();
    await waiting[0];
    expect(await codeOf(call(isOpen))).toBe("no error");
    await Promise.all(waiting);
  });

  test("does not make a forged proof wait", async () => {
    const rated = await account({ constraints: rate(5, 3600) });
    const bundle = await rated.prove({ now });
    const held = await service.hold("select from certificates where cert_id = $1 for update", [
      rated.certificate.cert_id,
    ]);
    const forged = { ...bundle, challenge_at: bundle.challenge_at - 1 };
    expect(await codeOf(verify(forged, { as: rated }))).toBe("invalid_proof");
    await held.commit();
  });

  test("records nothing if the decision fails, and starts the next call", async () => {
    const rated = await account({ constraints: rate(1, 3600) });
    const certId = rated.certificate.cert_id;
    const counting = { certificates: [{ accountId: rated.accountId, certId }], byOwner: true, now };
    const item = itemFor({ ...rated, certId });
    const failing = await service.deps.lockCertificates(counting);
    await expect(failing.decide({ ...item, accountId: "nobody" })).rejects.toThrow("uuid");
    await failing.end();
    expect(await countOf("audit_events", rated)).toBe(0);
    expect(await spentOf(rated)).toBe(0);
    const next = await service.deps.lockCertificates(counting);
    expect(await next.countAllows(certId, 3600)).toBe(0);
    expect(await next.decide(item)).toMatchObject({ decision: "allow" });
    await next.end();
  });

  test("changes nothing if a call ends its use of the certificate without a decision", async () => {
    const rated = await account({ constraints: rate(1, 3600) });
    const certificates = [{ accountId: rated.accountId, certId: rated.certificate.cert_id }];
    const lock = await service.deps.lockCertificates({ certificates, byOwner: true, now });
    await lock.end();
    expect(await decisionOf(await rated.prove({ now }), { as: rated })).toBe("allow authorized");
  });

  test("does not start for a proof that an earlier rule denies", async () => {
    const amount = { type: "max_amount" as const, max_amount: 10, currency: "EUR" };
    const rated = await account({ constraints: [amount, ...rate(5, 3600)] });
    const lockCertificates = () => Promise.reject(new Error("counted"));
    const body = { proof_bundle: await rated.prove({ now }), required_scope: "data:read" };
    const over = { ...body, context: { amount: 11, currency: "EUR" } };
    const call = readVerifyCall(callerOf(rated), Buffer.from(JSON.stringify(over)), undefined);
    expect(await verifyProof({ ...service.deps, lockCertificates }, call)).toMatchObject({
      decision: "deny",
      reason: "constraint_denied",
    });
  });

  test("leaves the challenge unspent when there is no credit", async () => {
    const rated = await account({ balanceMicroUsd: 0, constraints: rate(5, 3600) });
    const bundle = await rated.prove({ now });
    expect(await codeOf(verify(bundle, { as: rated }))).toBe("credits_exhausted");
    await service.db("balances").where({ account_id: rated.accountId }).update({ balance_micro_usd: 10_000 });
    expect(await decisionOf(bundle, { as: rated })).toBe("allow authorized");
    expect(await codeOf(verify(bundle, { as: rated }))).toBe("invalid_challenge");
  });
});
