import { expect, test, vi } from "vitest";
import { createRateTurn } from "../../../src/proofs/admission/certificate_rate.ts";
import type { DecisionOutcome } from "../../../src/proofs/decide/decision.ts";
import type { DecisionItem } from "../../../src/proofs/decide/decision_item.ts";
import type { Constraint } from "../../../src/protocol/constraints/constraints.ts";
import type { ProofBundle } from "../../../src/protocol/documents/proof_bundle.ts";
import { chain, ROOT } from "../../support/chains.ts";
import { now } from "../verify_world.ts";

const HOURLY: Constraint[] = [{ type: "max_rate", count: 5, window_s: 3600 }];
const spent: DecisionOutcome = { kind: "challenge_spent" };

/** The chain has three certificates. Certificates 0 and 2 have a rate limit. */
async function turnOf({ owner = "verifier", isAccepted = async () => true, constraints = HOURLY } = {}) {
  const turn = {
    countAllows: vi.fn(async () => 3),
    decide: vi.fn(async () => spent),
    end: vi.fn(async () => {}),
  };
  const deps = {
    decide: vi.fn(async () => spent),
    takeTurn: vi.fn(async () => turn),
    isAccepted: vi.fn(isAccepted),
  };
  const caller = {
    accountId: "verifier",
    connectionId: "connection",
    keyPrefix: "",
    verifierId: "connection",
    registryAnswers: false,
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
  return { ...deps, turn, stepAside, rateTurn: createRateTurn(deps, { call, bundle, root, now }) };
}

test("createRateTurn takes one turn for all rate-limited certificates in a chain, however many counts are read", async () => {
  const { rateTurn, takeTurn, isAccepted, turn } = await turnOf();
  expect(await rateTurn.countAllows("cert-0", 3600)).toBe(3);
  expect(await rateTurn.countAllows("cert-2", 60)).toBe(3);
  const certificates = ["cert-0", "cert-2"].map((certId) => ({ accountId: "verifier", certId }));
  expect(takeTurn.mock.calls).toEqual([[{ certificates, byOwner: true, now }]]);
  expect(turn.countAllows.mock.calls).toEqual([
    ["cert-0", 3600],
    ["cert-2", 60],
  ]);
  expect(isAccepted).not.toHaveBeenCalled();
});

test("createRateTurn looks up once whether a different account's root is accepted, and counts the call among those of other accounts", async () => {
  const { rateTurn, takeTurn, isAccepted } = await turnOf({ owner: "another" });
  await rateTurn.countAllows("cert-0", 3600);
  await rateTurn.countAllows("cert-2", 3600);
  const asked = { connectionId: "connection", humanId: ROOT.id, scope: "meeting:attend", at: now };
  expect(isAccepted.mock.calls).toEqual([[asked]]);
  expect(takeTurn.mock.calls).toMatchObject([[{ byOwner: false }]]);
});

test("createRateTurn never counts uses for a root that was not accepted at the time of the lookup", async () => {
  let isAccepted = false;
  const accepting = async () => {
    const before = isAccepted;
    isAccepted = true;
    return before;
  };
  const { rateTurn, takeTurn } = await turnOf({ owner: "another", isAccepted: accepting });
  expect(await rateTurn.countAllows("cert-0", 3600)).toBe(0);
  expect(await rateTurn.countAllows("cert-2", 3600)).toBe(0);
  expect(await rateTurn.isAccepted()).toBe(false);
  expect(takeTurn).not.toHaveBeenCalled();
});

test("createRateTurn neither looks up nor counts anything for a root that belongs to no account", async () => {
  const { rateTurn, takeTurn, isAccepted } = await turnOf({ owner: "nobody" });
  expect(await rateTurn.countAllows("cert-0", 3600)).toBe(0);
  expect(await rateTurn.isAccepted()).toBe(true);
  expect([takeTurn, isAccepted].flatMap(({ mock }) => mock.calls)).toEqual([]);
});

test("createRateTurn decides in the transaction that counted, or immediately if nothing was counted", async () => {
  const item = {} as DecisionItem;
  const { rateTurn, decide, turn, stepAside } = await turnOf();
  await rateTurn.decide(item);
  await rateTurn.end();
  expect([decide.mock.calls, turn.decide.mock.calls, turn.end.mock.calls]).toEqual([
    [[item, stepAside]],
    [],
    [],
  ]);
  await rateTurn.countAllows("cert-0", 3600);
  await rateTurn.decide(item);
  await rateTurn.end();
  expect([decide.mock.calls, turn.decide.mock.calls, turn.end.mock.calls]).toEqual([
    [[item, stepAside]],
    [[item]],
    [[]],
  ]);
});

test("createRateTurn frees the call's queue slot before the call waits, and keeps the slot if the call need not wait", async () => {
  const { rateTurn, stepAside, takeTurn } = await turnOf();
  expect(stepAside).not.toHaveBeenCalled();
  await rateTurn.countAllows("cert-0", 3600);
  await rateTurn.countAllows("cert-0", 3600);
  expect(stepAside.mock.invocationCallOrder).toHaveLength(1);
  expect(stepAside.mock.invocationCallOrder[0]).toBeLessThan(takeTurn.mock.invocationCallOrder[0] ?? 0);
  const strangers = await turnOf({ owner: "nobody" });
  await strangers.rateTurn.countAllows("cert-0", 3600);
  expect(strangers.stepAside).not.toHaveBeenCalled();
});
