import { describe, expect, test } from "vitest";
import { createFairQueue } from "../../../src/proofs/admission/fair_queue.ts";
import { type Application, proofApi } from "../application.ts";

const queue = createFairQueue({
  places: 2,
  share: { least: 1, most: 1 },
  waitMs: 1_000,
  most: 100,
  longMs: 60_000,
});
const world = proofApi({ queue });

async function takeAllPlaces(): Promise<() => Promise<void>> {
  const { promise: end, resolve } = Promise.withResolvers<void>();
  const calls = ["one", "another"].map((account) => queue.run(account, () => end));
  await expect.poll(() => queue.running).toBe(2);
  return async () => {
    resolve();
    await Promise.all(calls);
  };
}

const FORMS: Record<string, (app: Application, proof: unknown) => ReturnType<Application["post"]>> = {
  verify: (app, proof) => app.verify(proof),
  "a gateway's hook": (app, proof) =>
    app.post("/v1/service/ext-auth/data:read", undefined, { "x-service-proof": JSON.stringify(proof) }),
  "an AuthZEN question": (app, proof) => app.post("/access/v1/evaluation", questionOf(app, proof)),
};

function questionOf(app: Application, proof: unknown) {
  return {
    subject: { type: "agent", id: app.agentId },
    action: { name: "data:read" },
    resource: { type: "connection", id: app.platform.connectionId },
    context: { proof_bundle: proof },
  };
}

async function balanceOf({ person }: Application): Promise<unknown> {
  return (await world.api.db("balances").where({ account_id: person.accountId }).first("balance_micro_usd"))
    ?.balance_micro_usd;
}

describe("while the decision queue has no free slot", () => {
  test.each(Object.keys(FORMS))("%s gets 503 with Retry-After, and its proof remains valid", async (form) => {
    const app = await world.application();
    const proof = await app.proof();
    const ask = () => FORMS[form]?.(app, proof);
    const before = await balanceOf(app);
    const giveBack = await takeAllPlaces();
    const refused = await ask();
    expect([refused?.status, refused?.headers.get("retry-after")]).toEqual([503, "1"]);
    await giveBack();
    expect(await balanceOf(app)).toBe(before);
    expect((await ask())?.status).toBe(200);
    expect(await balanceOf(app)).not.toBe(before);
  });

  test("the API refuses each item in an AuthZEN batch separately", async () => {
    const app = await world.application();
    const proofs = [await app.proof(), await app.proof()];
    const ask = () =>
      app.post("/access/v1/evaluations", { evaluations: proofs.map((proof) => questionOf(app, proof)) });
    const giveBack = await takeAllPlaces();
    const { status, body } = await ask();
    expect([status, body.evaluations]).toMatchObject([
      200,
      Array(2).fill({ decision: false, context: { reason: "unavailable", error: { status: 503 } } }),
    ]);
    await giveBack();
    expect((await ask()).body).toMatchObject({ evaluations: [{ decision: true }, { decision: true }] });
  });

  test("the API answers calls that need no decision", async () => {
    const app = await world.application();
    const giveBack = await takeAllPlaces();
    expect((await app.present()).status).toBe(200);
    expect((await app.person.client.get("/v1/service/audit/personal")).status).toBe(200);
    await giveBack();
  });
});

test("a call frees its slot in the decision queue while it waits for a locked certificate", async () => {
  const [held, other] = [await world.application(), await world.application()];
  const [proof, another] = [await held.proof(), await other.proof()];
  const lock = await world.api.db.transaction();
  await lock("certificates").where({ cert_id: held.certId }).forUpdate().first("cert_id");
  const waiting = held.verify(proof);
  await expect.poll(() => queue.running).toBe(1);
  await expect.poll(() => queue.running).toBe(0);
  expect((await other.verify(another)).body).toMatchObject({ decision: "allow" });
  await lock.commit();
  expect((await waiting).body).toMatchObject({ decision: "allow" });
});
