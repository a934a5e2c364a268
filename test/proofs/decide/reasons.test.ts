import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { unixSeconds } from "../../../src/clock.ts";
import {
  decisionReasons,
  decisionRules,
  explainDecision,
  REASONS,
} from "../../../src/proofs/decide/reasons.ts";
import { challengeDay, issueChallenge } from "../../../src/proofs/present/challenge.ts";
import type { Constraint } from "../../../src/protocol/constraints/constraints.ts";
import { encodeBase64 } from "../../../src/protocol/encoding/base64.ts";
import { presentProof } from "../../../src/protocol/statements/issuing.ts";
import { orderSteps } from "../../../src/protocol/verification/rule_order.ts";
import { verifyBundle } from "../../../src/protocol/verification/verify_bundle.ts";
import { acceptPrincipal } from "../../support/accepted_principals.ts";
import { insertAccount, insertApproval } from "../../support/account_rows.ts";
import { certify, testKey } from "../../support/chains.ts";
import { now, verifyWorld } from "../verify_world.ts";

const service = verifyWorld();
const SCOPE = "data:read";

/** Possible faults of a genuine proof, in the order of evaluation, named by their reasons. */
const FAULTS = [
  "untrusted_root",
  "principal_not_accepted",
  "delegation_expired",
  "not_yet_valid",
  "delegation_revoked",
  "delegation_not_authorized",
  "constraint_denied",
  "not_delegated",
  "ceiling_exceeded",
] as const;
type Fault = (typeof FAULTS)[number];
/** Reasons that cannot occur together with other faults. */
const ALONE = [
  "authorized",
  "constraint_unverifiable",
  "constraint_unknown",
  "revocation_state_unavailable",
] as const;

const TOO_DEAR: Constraint = { type: "max_amount", max_amount: 10, currency: "EUR" };
const CONTEXT = { amount: 11, currency: "EUR" };
let round = 0;

/** Creates a proof with a chain of two certificates and these faults, presented to another account. */
async function proofWith(faults: readonly Fault[], constraints: Constraint[] = []) {
  const has = (fault: Fault) => faults.includes(fault);
  round += 1;
  const [root, middle, agent] = [testKey(20 + round), testKey(60 + round), testKey(100 + round)];
  const at = unixSeconds(now);
  const scope = has("not_delegated") ? ["data:share"] : [SCOPE];
  const certificates = [
    await certify(middle, agent, {
      cert_id: `cert-${randomUUID()}`,
      scope,
      constraints: has("constraint_denied") ? [TOO_DEAR] : constraints,
      issued_at: has("not_yet_valid") ? at + 60 : at - 60,
      expires_at: has("delegation_expired") ? at - 1 : at + 60,
    }),
    await certify(root, middle, {
      cert_id: `cert-${randomUUID()}`,
      scope: has("delegation_not_authorized") ? scope : [...scope, "identity:delegate"],
      issued_at: at - 60,
      expires_at: at + 60,
    }),
  ];
  const verifier = await service.account();
  const owner = { accountId: randomUUID(), connectionId: randomUUID(), agentId: agent.id };
  await insertAccount(service.db, {
    ...owner,
    humanId: has("untrusted_root") ? testKey(150 + round).id : root.id,
    rootPublicKey: root.publicKey,
    agentPublicKey: agent.publicKey,
    balanceMicroUsd: 0,
    scope,
    now,
  });
  for (const { cert_id } of certificates) {
    await insertApproval(service.db, owner, { certId: cert_id, json: "{}", scope, now });
  }
  const leaf = service.db("certificates").where({ cert_id: certificates[0]?.cert_id ?? "" });
  if (has("delegation_revoked")) await leaf.clone().update({ status: "revoked" });
  if (has("ceiling_exceeded")) await leaf.clone().update({ ceiling_scope: ["data:share"] });
  if (!has("principal_not_accepted")) {
    await acceptPrincipal(service.db, verifier, { humanId: root.id }, { created_at: now });
  }
  const key = await service.deps.keys.forIssuing(challengeDay(now), now);
  const challenge = encodeBase64(issueChallenge(key, verifier.connectionId, now));
  const bundle = await presentProof(agent.privateKey, certificates, { challenge, challenge_at: at });
  return { bundle, verifier, leaf };
}

const failedIn = (checks: readonly { name: string; outcome: string }[]) =>
  checks.filter(({ outcome }) => outcome === "failed").map(({ name }) => name);
const outcomes = (reason: string | undefined) => explainDecision(reason).map(({ outcome }) => outcome);

describe("the decision on a proof with several faults", () => {
  test.each(FAULTS)("denies as %s if that is the first fault", async (fault) => {
    const { bundle, verifier } = await proofWith(FAULTS.slice(FAULTS.indexOf(fault)));
    const asked = { as: verifier, scope: SCOPE, context: CONTEXT };
    expect(await service.decisionOf(bundle, asked)).toBe(`deny ${fault}`);
    const checks = explainDecision(fault);
    const at = checks.findIndex(({ outcome }) => outcome === "failed");
    expect(decisionRules[at]?.reasons).toContain(fault);
    expect(checks.slice(0, at).every(({ outcome }) => outcome === "passed")).toBe(true);
    expect(checks.slice(at + 1).every(({ outcome }) => outcome === "not_reached")).toBe(true);
    const later = FAULTS.slice(FAULTS.indexOf(fault) + 1).flatMap((each) => failedIn(explainDecision(each)));
    const names = checks.map(({ name }) => name);
    expect(later.every((name) => names.indexOf(name) > at)).toBe(true);
  });

  test.each([
    "delegation_expired",
    "not_yet_valid",
    "delegation_not_authorized",
    "constraint_denied",
  ] as const)("explains %s by the same rule that fails in the protocol", async (fault) => {
    const { bundle } = await proofWith(FAULTS.slice(FAULTS.indexOf(fault)));
    const { checks, genuine } = await verifyBundle(bundle, {
      now: unixSeconds(now),
      required_scope: SCOPE,
      context: CONTEXT,
      challengeStore: "deferred",
      revocation: "deferred",
    });
    expect(genuine).toBe(true);
    expect(failedIn(checks())).toEqual(failedIn(explainDecision(fault)));
  });
});

describe("the decision on a proof without a fault", () => {
  test("allows, and reports every rule as passed", async () => {
    const { bundle, verifier } = await proofWith([]);
    expect(await service.decisionOf(bundle, { as: verifier, scope: SCOPE })).toBe("allow authorized");
    expect(new Set(outcomes("authorized"))).toEqual(new Set(["passed"]));
  });

  test.each([
    ["constraint_unverifiable", TOO_DEAR],
    ["constraint_unknown", { type: "moon_phase" } as unknown as Constraint],
  ])(
    "denies as %s if a constraint cannot be evaluated, and reports the constraints rule as failed",
    async (reason, constraint) => {
      const { bundle, verifier } = await proofWith([], [constraint]);
      expect(await service.decisionOf(bundle, { as: verifier, scope: SCOPE })).toBe(`deny ${reason}`);
      expect(failedIn(explainDecision(reason))).toEqual(["constraints"]);
    },
  );

  test("stays indeterminate if the certificate's state is unknown, and reports the revocation rule as failed", async () => {
    const { bundle, verifier, leaf } = await proofWith([]);
    await leaf.clone().delete();
    expect(await service.decisionOf(bundle, { as: verifier, scope: SCOPE })).toBe(
      "indeterminate revocation_state_unavailable",
    );
    expect(failedIn(explainDecision("revocation_state_unavailable"))).toEqual(["not_revoked"]);
  });
});

describe("the list of decision reasons", () => {
  test("has a test in this file for every reason", () => {
    const untested = Object.keys(REASONS).filter(
      (reason) => ![...FAULTS, ...ALONE].some((each) => each === reason),
    );
    expect(untested, "give each a fault of proofWith, or a test of its own and a place in ALONE").toEqual([]);
  });
});

describe("the list of decision rules", () => {
  test("contains every decision reason once, and every protocol rule in the protocol's order", async () => {
    const reasons = decisionRules.flatMap((rule) => rule.reasons);
    expect(reasons.toSorted()).toEqual(
      [...decisionReasons.deny, ...decisionReasons.indeterminate].toSorted(),
    );
    const { bundle } = await proofWith([]);
    const steps = orderSteps({ bundle, options: { now: 0, challengeStore: "deferred" } });
    for (const wanted of ["evidence", "permission"]) {
      const inOrder = [...new Set(steps.filter(({ kind }) => kind === wanted).map(({ name }) => name))];
      const ours = decisionRules.filter(({ kind }) => kind === wanted).map(({ name }) => name);
      expect(ours.filter((name) => inOrder.includes(name))).toEqual(inOrder);
    }
    const others = decisionRules
      .map(({ name }) => name)
      .filter((name) => !steps.some((step) => step.name === name));
    expect(others).toEqual(["root_trusted", "principal_accepted", "within_ceiling"]);
  });

  test("starts with evidence rules, which have no reasons, and has a reason for each permission rule", () => {
    const first = decisionRules.findIndex(({ kind }) => kind === "permission");
    expect(decisionRules.slice(0, first).every(({ reasons }) => reasons.length === 0)).toBe(true);
    expect(
      decisionRules.slice(first).every(({ kind, reasons }) => kind === "permission" && reasons.length > 0),
    ).toBe(true);
  });

  test("reports every rule as not reached if there is no decision", () => {
    expect(new Set(outcomes(undefined))).toEqual(new Set(["not_reached"]));
  });
});
