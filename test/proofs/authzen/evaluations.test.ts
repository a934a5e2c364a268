import { describe, expect, test } from "vitest";
import type { HttpAnswer } from "../../support/http.ts";
import { type Application, answerFromRegistry, decisionsOf, errorOf, proofApi } from "../application.ts";
import { question } from "../questions.ts";

const world = proofApi();

const askAll = (app: Application, body: unknown): Promise<HttpAnswer> =>
  app.post("/access/v1/evaluations", body);

describe("an AuthZEN call with several questions", () => {
  const decisions = ({ body }: HttpAnswer) =>
    (body.evaluations as { decision: boolean }[]).map(({ decision }) => decision);

  test("applies shared members to each question, and gets answers in order", async () => {
    const app = await world.application();
    await answerFromRegistry(app);
    const { subject, resource } = question(app);
    const answer = await askAll(app, {
      subject,
      resource,
      evaluations: [
        { action: { name: "data:read" } },
        { action: { name: "data:share" } },
        { action: { name: "payments:send" }, subject: { type: "agent", id: "0".repeat(32) } },
        { action: { name: "payments:send" } },
      ],
    });
    expect([answer.status, decisions(answer)]).toEqual([200, [true, false, false, true]]);
  });

  test("gets 200 with false for each invalid question", async () => {
    const app = await world.application();
    await answerFromRegistry(app);
    const proof_bundle = await app.proof();
    const spoilt = { ...(proof_bundle as object), challenge_at: 1 };
    const answer = await askAll(app, {
      ...question(app),
      evaluations: [
        {},
        { action: {} },
        7,
        { context: { proof_bundle: spoilt } },
        { context: { proof_bundle } },
        { context: "x" },
        { resource: null },
      ],
    });
    expect(answer.status).toBe(200);
    expect(decisions(answer)).toEqual([true, false, false, false, true, false, false]);
    expect((answer.body.evaluations as unknown[])[1]).toEqual({
      decision: false,
      context: { reason: "invalid_request", error: { status: 400, message: expect.any(String) } },
    });
  });

  test("gets 400 if one question contains U+0000", async () => {
    const app = await world.application();
    const evaluations = [{}, { subject: { type: "agent", id: "\u0000" } }];
    expect(errorOf(await askAll(app, { ...question(app), evaluations }))).toBe("400 invalid_request");
  });

  test("gets 500, not false for each question, if the service fails", async () => {
    const app = await world.application();
    await answerFromRegistry(app);
    await world.api.db.raw("alter table agents rename to agents_away");
    try {
      const answer = await askAll(app, { ...question(app), evaluations: [{}, {}] });
      expect(errorOf(answer)).toBe("500 internal");
    } finally {
      await world.api.db.raw("alter table agents_away rename to agents");
    }
    expect(decisions(await askAll(app, { ...question(app), evaluations: [{}] }))).toEqual([true]);
  });

  test("causes one charge if two questions contain the same proof", async () => {
    const app = await world.application();
    await answerFromRegistry(app);
    const item = { context: { proof_bundle: await app.proof() } };
    const answer = await askAll(app, { ...question(app), evaluations: [item, item] });
    expect(decisions(answer).sort()).toEqual([false, true]);
    expect(await decisionsOf(world, app)).toBe(1);
  });

  test.each([
    ["execute_all", [true, false, true]],
    ["deny_on_first_deny", [true, false]],
    ["permit_on_first_permit", [true]],
  ])("stops where the semantic %s requires", async (evaluations_semantic, expected) => {
    const app = await world.application();
    await answerFromRegistry(app);
    const scopes = ["data:read", "data:share", "payments:send"];
    const answer = await askAll(app, {
      ...question(app),
      evaluations: scopes.map((name) => ({ action: { name } })),
      options: { evaluations_semantic },
    });
    expect(decisions(answer)).toEqual(expected);
  });

  test.each([[undefined], [[]]])(
    "counts as a single question if its list is absent or empty",
    async (evaluations) => {
      const app = await world.application();
      await answerFromRegistry(app);
      const answer = await askAll(app, { ...question(app), evaluations });
      expect(answer.body).toMatchObject({ decision: true, context: { assurance: "registry" } });
    },
  );

  test("gets 400 for evaluations that are not a list, for more than 100 items and for an unknown semantic", async () => {
    const app = await world.application();
    await answerFromRegistry(app);
    const many = (count: number) => Array.from({ length: count }, () => ({}));
    for (const fields of [
      { evaluations: {} },
      { evaluations: many(101) },
      { evaluations: [{}], options: { evaluations_semantic: "any" } },
    ]) {
      expect(errorOf(await askAll(app, { ...question(app), ...fields }))).toBe("400 invalid_request");
    }
    expect(decisions(await askAll(app, { ...question(app), evaluations: many(100) }))).toHaveLength(100);
  });
});
