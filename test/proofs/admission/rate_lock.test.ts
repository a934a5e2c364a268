import { expect, test, vi } from "vitest";
import { createRateLock } from "../../../src/proofs/admission/certificate_rate.ts";
import type { DecisionOutcome } from "../../../src/proofs/decide/decision.ts";
import type { DecisionItem } from "../../../src/proofs/decide/decision_item.ts";
import type { Constraint } from "../../../src/protocol/constraints/constraints.ts";
import type { ProofBundle } from "../../../src/protocol/documents/proof_bundle.ts";
import { chain, ROOT } from "../../support/chains.ts";
import { now } from "../verify_world.ts";

const HOURLY: Constraint[] = [{ type: "max_rate", count: 5, window_s: 3600 }];
const spent: DecisionOutcome = { kind: "challenge_spent" };

/** The chain has three certificates. Certificates 0 and 2 have a rate limit. */
async function lockOf({ owner = "verifier", isAccepted = async () => true, constraints = HOURLY } = {}) {
  const lock = {
    countAllows: vi.fn(async () => 3),
    decide: vi.fn(async () => spent),
    end: vi.fn(async () => {}),
  };
  const deps = {
    decide: vi.fn(async () => spent),
    lockCertificates: vi.fn(async () => lock),
    isAccepted: vi.fn(isAccepted),
  };
  const caller = {
    accountId: "verifier",
    principalAccountId: "verifier",
    isCustomer: false,
    connectionId: "connection",
    keyPrefix: "",
    verifierId: "connection",
    registryAnswers: false,
    explanationValues: "full" as const,
  };
  const stepAside = vi.fn();
  const call = {
    caller,
    options: { required_scope: "meeting:attend" },
    stepAside,
    readProof: () => ({ bundle }),
  };
  const bundle = { delegations: await chain({ constraints }, {}, { constraints }) } as ProofBundle;
  const root = owner === "nobody" ? undefined : { accountId: owner, publicKey: ROOT.publicKey };
  return { ...deps, lock, stepAside, rateLock: createRateLock(deps, { call, bundle, root, now }) };
}

test("createRateLock takes one lock for all rate-limited certificates in a chain, however many counts are read", async () => {
  const { rateLock, lockCertificates, isAccepted, lock } = await lockOf();
  expect(await rateLock.countAllows("cert-0", 3600)).toBe(3);
  expect(await rateLock.countAllows("cert-2", 60)).toBe(3);
  const certificates = ["cert-0", "cert-2"].map((certId) => ({ accountId: "verifier", certId }));
  expect(lockCertificates.mock.calls).toEqual([[{ certificates, byOwner: true, now }]]);
  expect(lock.countAllows.mock.calls).toEqual([
    ["cert-0", 3600],
    ["cert-2", 60],
  ]);
  expect(isAccepted).not.toHaveBeenCalled();
});

test("createRateLock looks up once whether a different account's root is accepted, and counts the call among those of other accounts", async () => {
  const { rateLock, lockCertificates, isAccepted } = await lockOf({ owner: "another" });
  await rateLock.countAllows("cert-0", 3600);
  await rateLock.countAllows("cert-2", 3600);
  const asked = { connectionId: "connection", humanId: ROOT.id, scope: "meeting:attend", at: now };
  expect(isAccepted.mock.calls).toEqual([[asked]]);
  expect(lockCertificates.mock.calls).toMatchObject([[{ byOwner: false }]]);
});

test("createRateLock never counts uses for a root that was not accepted at the time of the lookup", async () => {
  let isAccepted = false;
  const accepting = async () => {
    const before = isAccepted;
    isAccepted = true;
    return before;
  };
  const { rateLock, lockCertificates } = await lockOf({ owner: "another", isAccepted: accepting });
  expect(await rateLock.countAllows("cert-0", 3600)).toBe(0);
  expect(await rateLock.countAllows("cert-2", 3600)).toBe(0);
  expect(await rateLock.isAccepted()).toBe(false);
  expect(lockCertificates).not.toHaveBeenCalled();
});

test("createRateLock neither looks up nor counts anything for a root that belongs to no account", async () => {
  const { rateLock, lockCertificates, isAccepted } = await lockOf({ owner: "nobody" });
  expect(await rateLock.countAllows("cert-0", 3600)).toBe(0);
  expect(await rateLock.isAccepted()).toBe(true);
  expect([lockCertificates, isAccepted].flatMap(({ mock }) => mock.calls)).toEqual([]);
});

test("createRateLock decides in the transaction that counted, or immediately if nothing was counted", async () => {
  const item = {} as DecisionItem;
  const { rateLock, decide, lock, stepAside } = await lockOf();
  await rateLock.decide(item);
  await rateLock.end();
  expect([decide.mock.calls, lock.decide.mock.calls, lock.end.mock.calls]).toEqual([
    [[item, stepAside]],
    [],
    [],
  ]);
  await rateLock.countAllows("cert-0", 3600);
  await rateLock.decide(item);
  await rateLock.end();
  expect([decide.mock.calls, lock.decide.mock.calls, lock.end.mock.calls]).toEqual([
    [[item, stepAside]],
    [[item]],
    [[]],
  ]);
});

test("createRateLock frees the call's queue slot before the call waits, and keeps the slot if the call need not wait", async () => {
  const { rateLock, stepAside, lockCertificates } = await lockOf();
  expect(stepAside).not.toHaveBeenCalled();
  await rateLock.countAllows("cert-0", 3600);
  await rateLock.countAllows("cert-0", 3600);
  expect(stepAside.mock.invocationCallOrder).toHaveLength(1);
  expect(stepAside.mock.invocationCallOrder[0]).toBeLessThan(
    lockCertificates.mock.invocationCallOrder[0] ?? 0,
  );
  const strangers = await lockOf({ owner: "nobody" });
  await strangers.rateLock.countAllows("cert-0", 3600);
  expect(strangers.stepAside).not.toHaveBeenCalled();
});
