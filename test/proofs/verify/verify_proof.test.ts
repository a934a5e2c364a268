import { randomBytes } from "node:crypto";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD } from "../../../src/accounts/ledger/amounts.ts";
import { addSeconds, unixSeconds } from "../../../src/clock.ts";
import type { Refusals } from "../../../src/proofs/admission/refused_proofs.ts";
import { challengeDay, issueChallenge } from "../../../src/proofs/present/challenge.ts";
import { readVerifyCall } from "../../../src/proofs/verify/call.ts";
import { verifyProof } from "../../../src/proofs/verify/verify_proof.ts";
import { acceptPrincipal } from "../../support/accepted_principals.ts";
import type { ProofWorld } from "../../support/proof_world.ts";
import { callerOf, codeOf, now, verifyWorld } from "../verify_world.ts";

const service = verifyWorld();
const { account, verify, decisionOf, countOf } = service;
let person: ProofWorld;

beforeAll(async () => {
  person = await account();
});

afterEach(() => service.clock.set(now));

async function challengeAt(issued: Date): Promise<Uint8Array> {
  const key = await service.deps.keys.forIssuing(challengeDay(issued), issued);
  return issueChallenge(key, person.connectionId, issued);
}

describe("verifyProof", () => {
  test("allows a proof once, and throws invalid_challenge if the proof is repeated", async () => {
    const bundle = await person.prove({ now });
    expect(await decisionOf(bundle, { as: person })).toBe("allow authorized");
    expect(await codeOf(verify(bundle, { as: person }))).toBe("invalid_challenge");
  });

  test("denies a scope that was not granted, and spends the challenge", async () => {
    const bundle = await person.prove({ now });
    expect(await decisionOf(bundle, { as: person, scope: "files:read" })).toBe("deny not_delegated");
    expect(await codeOf(verify(bundle, { as: person }))).toBe("invalid_challenge");
  });

  test("denies if the certificate has been revoked, with a receipt that grants nothing", async () => {
    const revoked = await account();
    const bundle = await revoked.prove({ now });
    await service
      .db("certificates")
      .where({ cert_id: revoked.certificate.cert_id })
      .update({ status: "revoked" });
    expect(await verify(bundle, { as: revoked })).toMatchObject({
      decision: "deny",
      reason: "delegation_revoked",
      receipt: { decision: "deny", granted_scope: [] },
    });
  });

  test("allows in the certificate's last second, and denies as expired after that, even if the certificate is revoked", async () => {
    const ended = await account({ expiresAt: addSeconds(now, 60) });
    const decide = async (seconds: number) => {
      const at = addSeconds(now, seconds);
      service.clock.set(at);
      return decisionOf(await ended.prove({ now: at }), { as: ended });
    };
    expect(await decide(60)).toBe("allow authorized");
    expect(await decide(61)).toBe("deny delegation_expired");
    await service
      .db("certificates")
      .where({ cert_id: ended.certificate.cert_id })
      .update({ status: "revoked" });
    expect(await decide(60)).toBe("deny delegation_revoked");
    expect(await decide(61)).toBe("deny delegation_expired");
  });

  test("denies as untrusted_root if no account has the root, whatever else is wrong with the proof", async () => {
    const stranger = await account();
    const challenge = await challengeAt(now);
    const bundle = await stranger.prove({ now, challenge });
    await service
      .db("accounts")
      .where({ account_id: stranger.accountId })
      .update({ human_id: randomBytes(16).toString("hex") });
    expect(await verify(bundle, { as: person, scope: "files:read" })).toMatchObject({
      decision: "deny",
      reason: "untrusted_root",
      errorReason: "untrusted_root",
    });
  });

  test.each(["ed25519", "ml_dsa_65"] as const)(
    "denies a root that has the account's id but a different %s key",
    async (algorithm) => {
      const [owner, other] = [await account(), await account()];
      const { issuer_pub_key: own } = owner.certificate;
      const foreign = other.certificate.issuer_pub_key[algorithm];
      await service
        .db("accounts")
        .where({ account_id: owner.accountId })
        .update({ root_public_key: { ...own, [algorithm]: foreign } });
      expect(await decisionOf(await owner.prove({ now }), { as: owner })).toBe("deny untrusted_root");
    },
  );

  test("charges the verifying connection for a proof of a different account's agent", async () => {
    const other = await account();
    const decide = async () => {
      const bundle = await other.prove({ now, challenge: await challengeAt(now) });
      return decisionOf(bundle, { as: person });
    };
    const before = await countOf("ledger_postings", person);
    expect(await decide()).toBe("deny principal_not_accepted");
    await acceptPrincipal(service.db, person, other, { created_at: now });
    expect(await decide()).toBe("allow authorized");
    expect(await countOf("ledger_postings", person)).toBe(before + 2);
    expect(await countOf("ledger_postings", other)).toBe(0);
    expect(await countOf("audit_events", other)).toBe(2);
  });

  test("throws invalid_challenge for a connection that did not get the challenge", async () => {
    const other = await account();
    const bundle = await person.prove({ now });
    expect(await codeOf(verify(bundle, { as: other }))).toBe("invalid_challenge");
    expect(await decisionOf(bundle, { as: person })).toBe("allow authorized");
  });

  test("throws credits_exhausted without credit, and records nothing", async () => {
    const poor = await account({ balanceMicroUsd: VERIFICATION_PRICE_MICRO_USD });
    expect(await decisionOf(await poor.prove({ now }), { as: poor })).toBe("allow authorized");
    expect(await codeOf(verify(await poor.prove({ now }), { as: poor }))).toBe("credits_exhausted");
    expect(await countOf("audit_events", poor)).toBe(1);
  });

  test("marks the agent as known if it allows, but not if it denies", async () => {
    const known: boolean[] = [];
    const guard: Refusals["guard"] = async (_, { work }) => {
      const { result, allowed } = await work();
      known.push(allowed);
      return result;
    };
    for (const required_scope of ["data:read", "files:read"]) {
      const body = { proof_bundle: await person.prove({ now }), required_scope };
      const call = readVerifyCall(callerOf(person), Buffer.from(JSON.stringify(body)), undefined);
      await verifyProof({ ...service.deps, refusals: { guard } }, call);
    }
    expect(known).toEqual([true, false]);
  });
});

describe("verifyProof, for a challenge,", () => {
  test("allows in the challenge's last second, but not in the next second", async () => {
    const [first, second] = [await person.prove({ now }), await person.prove({ now })];
    const end = (unixSeconds(now) + 300) * 1000;
    service.clock.set(new Date(end));
    expect(await decisionOf(first, { as: person })).toBe("allow authorized");
    service.clock.set(new Date(end + 1));
    expect(await codeOf(verify(second, { as: person }))).toBe("invalid_challenge");
  });

  test("allows if a clock that runs ahead set the expiry at most 30 seconds too late", async () => {
    const issued = (seconds: number) => addSeconds(new Date(unixSeconds(now) * 1000), seconds);
    const [first, second] = [await challengeAt(issued(30)), await challengeAt(issued(31))];
    service.clock.set(issued(0));
    const proof = (challenge: Uint8Array) => person.prove({ now, challenge });
    expect(await decisionOf(await proof(first), { as: person })).toBe("allow authorized");
    expect(await codeOf(verify(await proof(second), { as: person }))).toBe("invalid_challenge");
  });

  test("throws invalid_challenge if the challenge's key is unknown, before any signature work", async () => {
    const challenge = issueChallenge(
      { day: challengeDay(now), secret: randomBytes(32) },
      person.connectionId,
      now,
    );
    expect(await codeOf(verify(await person.prove({ now, challenge }), { as: person }))).toBe(
      "invalid_challenge",
    );
    expect(
      await codeOf(verify(await person.prove({ now, challenge: randomBytes(32) }), { as: person })),
    ).toBe("invalid_challenge");
  });

  test("throws invalid_challenge if the key of the challenge's day no longer exists", async () => {
    const old = addSeconds(now, -86_400);
    const challenge = issueChallenge(
      { day: challengeDay(old), secret: randomBytes(32) },
      person.connectionId,
      old,
    );
    expect(await codeOf(verify(await person.prove({ now, challenge }), { as: person }))).toBe(
      "invalid_challenge",
    );
  });
});

describe("verifyProof with a forged bundle", () => {
  test("throws for each of 200 flipped bits, and leaves the challenge unspent", async () => {
    const bundle = await person.prove({ now });
    const text = JSON.stringify(bundle);
    const before = await countOf("audit_events", person);
    for (let round = 0; round < 200; round++) {
      const bytes = Buffer.from(text);
      const at = Math.floor(Math.random() * bytes.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << (round % 8));
      const rawBody = Buffer.concat([
        Buffer.from('{"required_scope":"data:read","proof_bundle":'),
        bytes,
        Buffer.from("}"),
      ]);
      const attempt = (async () =>
        verifyProof(service.deps, readVerifyCall(callerOf(person), rawBody, undefined)))();
      expect(["invalid_request", "invalid_proof", "invalid_challenge"]).toContain(await codeOf(attempt));
    }
    expect(await countOf("audit_events", person)).toBe(before);
    expect(await decisionOf(bundle, { as: person })).toBe("allow authorized");
  });

  test("throws invalid_proof for a widened scope, even if the genuine certificate is cached", async () => {
    await decisionOf(await person.prove({ now }), { as: person });
    const bundle = await person.prove({ now });
    const [certificate] = bundle.delegations;
    const forged = { ...bundle, delegations: [{ ...certificate, scope: ["files:read"] }] };
    expect(await codeOf(verify(forged, { as: person, scope: "files:read" }))).toBe("invalid_proof");
  });
});

describe("verifyProof with a forged challenge signature", () => {
  test("throws invalid_proof even if the certificate has expired, and charges nothing", async () => {
    const ended = await account({ expiresAt: addSeconds(now, 60) });
    const at = addSeconds(now, 61);
    service.clock.set(at);
    const [good, other] = [await ended.prove({ now: at }), await ended.prove({ now: at })];
    const forged = { ...good, challenge_sig: other.challenge_sig };
    expect(await codeOf(verify(forged, { as: ended }))).toBe("invalid_proof");
    expect(await countOf("audit_events", ended)).toBe(0);
    expect(await decisionOf(good, { as: ended })).toBe("deny delegation_expired");
  });
});

describe("verifyProof without a valid scope", () => {
  test.each([
    ...["nonsense", "x-acme:read", "urn:read", "custom:", "data:*"],
    ...["custom:refund", "custom:orders:*", "custom:orders:re\u200bfund", "custom:a:b:c:d:e", "custom:a: b"],
  ])("throws invalid_scope for the required scope %s", async (scope) => {
    expect(await codeOf(verify(await person.prove({ now }), { as: person, scope }))).toBe("invalid_scope");
  });
});

describe("verifyProof with constraints", () => {
  test("evaluates the constraints against the context of the call", async () => {
    const limited = await account({
      constraints: [{ type: "max_amount", max_amount: 10.5, currency: "EUR" }],
    });
    const decide = async (context?: Record<string, unknown>) =>
      decisionOf(await limited.prove({ now }), { as: limited, ...(context ? { context } : {}) });
    expect(await decide({ amount: 10.5, currency: "EUR" })).toBe("allow authorized");
    expect(await decide({ amount: 10.51, currency: "EUR" })).toBe("deny constraint_denied");
    expect(await decide()).toBe("deny constraint_unverifiable");
  });
});
