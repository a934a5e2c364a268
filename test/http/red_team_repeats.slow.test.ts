import { describe, expect, test } from "vitest";
import { type Application, errorOf, proofApi } from "../proofs/application.ts";
import { decide, operationOf, prove } from "../proofs/bound_operations.ts";

const world = proofApi({ config: { REFUSED_PROOFS_PER_MINUTE: 20 } });

async function decidedOperation(app: Application) {
  const operation = operationOf(app);
  expect((await decide(app, await prove(app, operation), operation)).body.replayed).toBe(false);
  return { operation, proof: await prove(app, operation) };
}

async function answersOf(times: number, call: () => ReturnType<Application["verify"]>): Promise<string[]> {
  const seen: string[] = [];
  for (let n = 0; n < times; n += 1) {
    const answer = await call();
    seen.push(answer.status === 200 ? `replayed ${answer.body.replayed}` : errorOf(answer));
  }
  return seen;
}

const of = (text: string, times: number) => Array.from({ length: times }, () => text);

describe("one API key that repeats a decided operation in a loop without being charged", () => {
  test("reaches its rate limit, and may continue as time passes", async () => {
    const app = await world.application();
    const { operation, proof } = await decidedOperation(app);
    const again = () => decide(app, proof, operation);
    expect(await answersOf(22, again)).toEqual([...of("replayed true", 20), ...of("429 rate_limited", 2)]);
    world.api.clock.advance(3);
    expect(await answersOf(2, again)).toEqual(["replayed true", "429 rate_limited"]);
  });

  test("reaches its rate limit even if it names a different operation each time", async () => {
    const app = await world.application();
    const { operation } = await decidedOperation(app);
    const other = operationOf(app, { resource_id: "order-8", invocation_id: operation.invocation_id ?? "" });
    const proof = await prove(app, other);
    const seen = await answersOf(22, () => decide(app, proof, other));
    expect(seen).toEqual([...of("409 invocation_conflict", 20), ...of("429 rate_limited", 2)]);
  });

  test("gains nothing from many calls at the same time", async () => {
    const app = await world.application();
    const { operation } = await decidedOperation(app);
    const proofs = await Promise.all(of("", 60).map(() => prove(app, operation)));
    const answers = await Promise.all(proofs.map((proof) => decide(app, proof, operation)));
    expect(answers.filter(({ body }) => body.replayed === true)).toHaveLength(20);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(40);
  });

  test("still gets decisions on its other operations", async () => {
    const app = await world.application();
    const { operation, proof } = await decidedOperation(app);
    expect((await answersOf(21, () => decide(app, proof, operation))).at(-1)).toBe("429 rate_limited");
    const next = operationOf(app);
    expect((await decide(app, await prove(app, next), next)).body).toMatchObject({
      decision: "allow",
      replayed: false,
    });
  });

  test("reaches a limit for all connections of the account together, without affecting other accounts", async () => {
    const person = await world.api.person({ organization_name: "Shops" });
    const apps = await Promise.all(of("", 5).map(() => world.application(undefined, person)));
    const stopped = async (app: Application) => {
      const { operation, proof } = await decidedOperation(app);
      return (await answersOf(20, () => decide(app, proof, operation))).at(-1);
    };
    for (const app of apps.slice(0, 4)) expect(await stopped(app)).toBe("replayed true");
    expect(await stopped(apps[4] as Application)).toBe("429 rate_limited");
    expect(await stopped(await world.application())).toBe("replayed true");
  });
});
