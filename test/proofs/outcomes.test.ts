import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { errorOf, proofApi } from "./application.ts";
import { decide, operationOf, prove, type Wish } from "./bound_operations.ts";

const world = proofApi();

describe("POST /v1/service/invocations/{invocation_id}/outcome", () => {
  async function decidedOperation(changes: Wish = {}) {
    const app = await world.application();
    const operation = operationOf(app, changes);
    const { body } = await decide(app, await prove(app, operation), operation);
    const { receipt_id: receiptId } = body.receipt as { receipt_id: string };
    const report = (fields: object = {}, headers = {}, invocation = operation.invocation_id) => {
      const report = { outcome: "executed", receipt_id: receiptId, occurred_at: "2026-05-01T10:00:00Z" };
      const path = `/v1/service/invocations/${encodeURIComponent(String(invocation))}/outcome`;
      return app.post(path, { ...report, ...fields }, headers);
    };
    const receipt = () =>
      world.api
        .client()
        .get(`/v1/service/receipts/${receiptId}`, { headers: { "x-service-api-key": app.platform.apiKey } });
    return { app, operation, receiptId, report, receipt, decided: body };
  }

  test("records one outcome, repeats the answer even for a report with a new time, and answers 409 to a different outcome", async () => {
    const { operation, receiptId, report } = await decidedOperation();
    const first = await report({ detail: "done" });
    expect([first.status, first.body]).toEqual([
      200,
      {
        invocation_id: operation.invocation_id,
        outcome: "executed",
        receipt_id: receiptId,
        detail: "done",
        occurred_at: "2026-05-01T10:00:00.000Z",
        recorded_at: world.api.clock.now().toISOString(),
      },
    ]);
    world.api.clock.advance(1);
    for (const occurred_at of ["2026-05-01T12:00:00+02:00", "2026-05-01T10:00:01Z"]) {
      expect((await report({ detail: "done", occurred_at })).body).toEqual(first.body);
    }
    for (const change of [{ outcome: "failed" }, { detail: "other" }, { detail: undefined }]) {
      expect(errorOf(await report({ detail: "done", ...change }))).toBe("409 outcome_conflict");
    }
  });

  test("ignores an Idempotency-Key, and stores no answer under it", async () => {
    const { report } = await decidedOperation();
    const kept = () => world.api.db("idempotency_keys").count<{ count: string }[]>().first();
    const before = await kept();
    const answer = await report({}, { "idempotency-key": "report-1" });
    expect([answer.status, answer.headers.get("idempotency-key-ignored")]).toEqual([200, "true"]);
    expect(await kept()).toEqual(before);
  });

  test("accepts invisible characters, because nobody approves an outcome", async () => {
    const { report } = await decidedOperation();
    const detail = "refused: \u202eabc\u200b\u00ad";
    expect((await report({ detail })).body).toMatchObject({ detail });
  });

  test.each([
    ["256 letters", "x".repeat(256)],
    ["256 wide characters", "漢".repeat(256)],
    ["path characters", "a/b?c#d%2F"],
    ["three dots", "..."],
    ["a space", " "],
    ["NULL", "NULL"],
    ["a backslash", "\\"],
  ])("accepts an invocation id of %s", async (_, invocationId) => {
    const { report } = await decidedOperation({ invocation_id: invocationId });
    expect((await report()).body).toMatchObject({ invocation_id: invocationId, outcome: "executed" });
  });

  test("accepts only times in four-digit years", async () => {
    const { report } = await decidedOperation();
    for (const occurred_at of ["9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01"]) {
      expect(errorOf(await report({ occurred_at }))).toBe("400 invalid_request");
    }
    const { body } = await report({ occurred_at: "9999-12-31T23:59:59.999Z" });
    expect(body.occurred_at).toBe("9999-12-31T23:59:59.999Z");
  });

  test.each(["executed", "failed", "refused_by_receiver", "not_attempted"])(
    "accepts the outcome %s",
    async (outcome) => {
      const { report, receipt } = await decidedOperation();
      expect((await report({ outcome })).status).toBe(200);
      expect((await receipt()).body.outcome).toMatchObject({ outcome });
    },
  );

  test("records one of 8 different concurrent reports", async () => {
    const { report } = await decidedOperation();
    const answers = await Promise.all(Array.from({ length: 8 }, (_, n) => report({ detail: String(n) })));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter((answer) => errorOf(answer) === "409 outcome_conflict")).toHaveLength(7);
  });

  test.each([
    ["an unknown outcome", { outcome: "done" }],
    ["a detail of 501 characters", { detail: "x".repeat(501) }],
    ["no time", { occurred_at: undefined }],
    ["a malformed time", { occurred_at: "yesterday" }],
    ["no receipt", { receipt_id: undefined }],
  ])("answers 400 invalid_request to %s", async (_, fields) => {
    const { report } = await decidedOperation();
    expect(errorOf(await report(fields))).toBe("400 invalid_request");
    expect((await report({ detail: "x".repeat(500) })).status).toBe(200);
  });

  test("answers 404 if the operation is unknown or belongs to a different application, and 409 to a different receipt", async () => {
    const [mine, other] = [await decidedOperation(), await decidedOperation()];
    expect(errorOf(await mine.report({}, {}, "unknown"))).toBe("404 not_found");
    expect(errorOf(await mine.report({}, {}, other.operation.invocation_id))).toBe("404 not_found");
    expect(errorOf(await mine.report({ receipt_id: other.receiptId }))).toBe("409 outcome_conflict");
    expect(errorOf(await mine.report({ receipt_id: "x" }))).toBe("409 outcome_conflict");
    expect((await mine.receipt()).body.outcome).toBeNull();
    expect((await mine.report()).status).toBe(200);
  });

  test("adds the outcome to the receipt, which only the receipt's application and person may read", async () => {
    const { app, receiptId, report, receipt, decided } = await decidedOperation();
    const before = (await receipt()).body;
    expect(before).toMatchObject({
      receipt_id: receiptId,
      receipt: decided.receipt,
      receipt_hash: decided.receipt_hash,
      outcome: null,
    });
    await report({ detail: "done" });
    expect((await receipt()).body).toEqual({
      ...before,
      outcome: {
        outcome: "executed",
        detail: "done",
        occurred_at: "2026-05-01T10:00:00.000Z",
        recorded_at: world.api.clock.now().toISOString(),
      },
    });
    const path = `/v1/service/receipts/${receiptId}`;
    expect((await app.person.client.get(path)).body.receipt_id).toBe(receiptId);
    const stranger = await world.application();
    const headers = { "x-service-api-key": stranger.platform.apiKey };
    for (const answer of [
      await world.api.client().get(path, { headers }),
      await stranger.person.client.get(path),
      await app.person.client.get("/v1/service/receipts/x"),
      await app.person.client.get(`/v1/service/receipts/${randomUUID()}`),
    ]) {
      expect(errorOf(answer)).toBe("404 not_found");
    }
  });
});
