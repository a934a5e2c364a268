import { expect, test, vi } from "vitest";
import type { GuardFault, PrincipalsSetting, VerificationRecord } from "../../src/sdk/guard.ts";
import { ALLOW, call, guardedWorld, operation, RECEIPT, verifier } from "./guarded.ts";
import { answering, answeringBoth } from "./stub_service.ts";

const OWN = "0123456789abcdef0123456789abcdef";
const OTHER = "f".repeat(32);
const world = guardedWorld();
const { guardWith } = world;

/** Returns whether an action runs after an allow decision with these members about the principal. */
async function isRun(principals: PrincipalsSetting, whose: object = { human_id: OWN }): Promise<boolean> {
  world.stub.respond(answering(200, { ...ALLOW, ...whose }));
  const run = await guardWith({ principals }).run(call, () => undefined);
  if (!run.executed) expect(run.refusal).toMatchObject({ status: 403, code: "principal_not_accepted" });
  return run.executed;
}

test("an action runs only with the authority of an accepted principal", async () => {
  expect(await isRun([OTHER, OWN])).toBe(true);
  expect(await isRun(new Set([OWN]))).toBe(true);
  expect(await isRun([OTHER])).toBe(false);
  expect(await isRun([])).toBe(false);
  expect(await isRun(() => [OWN])).toBe(true);
  expect(await isRun(async () => new Set([OWN]))).toBe(true);
  expect(await isRun(async () => [])).toBe(false);
});

test.each([undefined, null, "", [OWN], OWN.toUpperCase(), `${OWN} `, { toString: () => OWN }])(
  "an allow decision with the human_id %j is not accepted",
  async (humanId) => {
    expect(await isRun([OWN], { human_id: humanId })).toBe(false);
  },
);

test("only the service's own rules apply if no principals are set", async () => {
  const run = await guardWith().run(call, () => "done");
  expect(run).toMatchObject({ executed: true, value: "done" });
});

test("a function of principals is called after each allow decision, and a list is copied once", async () => {
  const list = [OWN];
  const principals = vi.fn(() => list);
  world.stub.respond(answering(200, { ...ALLOW, human_id: OWN }));
  const [asking, fixed] = [guardWith({ principals }), guardWith({ principals: list })];
  expect((await asking.authorize(call)).allowed).toBe(true);
  list.length = 0;
  expect((await asking.authorize(call)).allowed).toBe(false);
  expect((await fixed.authorize(call)).allowed).toBe(true);
  expect(principals).toHaveBeenCalledTimes(2);
  world.stub.respond(answering(200, { decision: "deny", decision_reason: "not_delegated" }));
  await asking.authorize(call);
  expect(principals).toHaveBeenCalledTimes(2);
});

test("an action with a principal that is not accepted is recorded with the service's response and reported as not_attempted", async () => {
  world.stub.respond(answeringBoth(answering(200, { ...ALLOW, human_id: OTHER }), answering(200, {})));
  const records: VerificationRecord[] = [];
  const guard = guardWith({ verifier, principals: [OWN], retain: (record) => records.push(record) });
  const action = vi.fn();
  const run = await guard.run({ ...call, operation }, action);
  await guard.flush();
  expect(action).not.toHaveBeenCalled();
  expect(run).toMatchObject({ executed: false, record: { cause: "principal_not_accepted" } });
  expect(records).toEqual([
    expect.objectContaining({
      cause: "principal_not_accepted",
      status: 200,
      answer: expect.objectContaining({ decision: "allow", human_id: OTHER }),
      refusal: expect.objectContaining({ status: 403, code: "principal_not_accepted" }),
    }),
  ]);
  const [, report] = world.sentBodies();
  expect(report).toMatchObject({ outcome: "not_attempted", receipt_id: RECEIPT.receipt_id });
});

test.each<[string, () => unknown]>([
  [
    "throws",
    () => {
      throw new Error("away");
    },
  ],
  ["rejects", () => Promise.reject(new Error("away"))],
  ["returns nothing", () => undefined],
  ["returns one id", () => OWN],
  ["returns ids of a different form", () => [OWN, "owner@example.test"]],
])(
  "if the function of principals %s, the guard refuses with 503 and reports the fault",
  async (_what, principals) => {
    world.stub.respond(answeringBoth(answering(200, { ...ALLOW, human_id: OWN }), answering(200, {})));
    const faults: GuardFault[] = [];
    const guard = guardWith({
      verifier,
      principals: principals as PrincipalsSetting & (() => []),
      onFault: (fault) => faults.push(fault),
    });
    const run = await guard.run({ ...call, operation }, () => undefined);
    await guard.flush();
    expect(run).toMatchObject({
      executed: false,
      refusal: { status: 503, code: "verification_unavailable" },
      record: { cause: "principals_not_read" },
    });
    expect(faults).toEqual([{ kind: "principals_not_read", error: expect.any(Error) }]);
    expect(world.sentBodies()[1]).toMatchObject({ outcome: "not_attempted" });
  },
);

test.each<[unknown]>([
  [null],
  [OWN],
  [{}],
  [[""]],
  [[OWN.toUpperCase()]],
  [[`${OWN}0`]],
  [[OWN, undefined]],
  [[["x"]]],
])("createGuard rejects the principals %j", (principals) => {
  const settings = { principals: principals as string[] };
  expect(() => guardWith(settings)).toThrow(TypeError);
});
