import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { csvHead, csvLine } from "../../src/console/elements/list_file.ts";
import { HISTORY_COLUMNS } from "../../src/console/pages/history/export.ts";
import type { Explanation } from "../../src/db/tables.ts";
import type { NamedEntry } from "../../src/history/history_entry.ts";
import { type HistoryRow, historyColumns, showHistoryRow } from "../../src/history/history_entry.ts";
import { canonicalJson } from "../../src/protocol/encoding/canonical.ts";
import { type Application, certify, proofApi } from "./application.ts";
import { BOUND_SCOPE, decide as decideOperation, operationOf, prove } from "./bound_operations.ts";

const world = proofApi();
const LIMIT = { max_amount: "250", currency: "EUR" };

async function limited(scope = "data:read"): Promise<Application> {
  const app = await world.application([]);
  const constraints = [{ type: "max_amount", max_amount: 250, currency: "EUR" }];
  return { ...app, certId: await certify(app, [scope], { constraints }) };
}

async function decide(
  app: Application,
  context: Record<string, unknown>,
  fields: Record<string, unknown> = {},
) {
  const { status, body } = await app.verify(await app.proof(), { context, ...fields });
  expect(status).toBe(200);
  return body as {
    decision: string;
    receipt: { receipt_id: string; explanation?: Explanation };
    receipt_hash: string;
  };
}

async function keep({ person, platform }: Application, values: string) {
  const path = `/v1/service/platforms/${platform.platformId}`;
  const { status, body } = await person.client.call("PATCH", path, { body: { explanation_values: values } });
  expect(status).toBe(200);
  expect(body.explanation_values).toBe(values);
}

const read = async ({ person }: Application, eventId: string) => {
  const { body } = await person.client.get(`/v1/service/audit/personal/${eventId}`);
  return body as unknown as NamedEntry;
};

test("a denial has the same explanation in its receipt, history, audit record and CSV line", async () => {
  const app = await limited();
  await keep(app, "full");
  const { decision, receipt, receipt_hash } = await decide(app, { amount: 300, currency: "EUR" });
  expect(decision).toBe("deny");
  const expected = {
    ...{ rule: "constraints", constraint: "max_amount", limit: LIMIT },
    ...{ sent: { amount: "300", currency: "EUR" }, values: "full" },
  };
  expect(receipt.explanation).toEqual(expected);
  expect(`sha256:${hash("sha256", canonicalJson(receipt))}`).toBe(receipt_hash);
  const entry = await read(app, receipt.receipt_id);
  expect(entry.details.explanation).toEqual(expected);
  const row = (await world.api
    .db("audit_events as e")
    .where({ event_id: receipt.receipt_id })
    .first(...historyColumns(world.api.db))) as HistoryRow;
  expect(showHistoryRow(row).details).toEqual(entry.details);
  const column = csvHead(HISTORY_COLUMNS).replaceAll('"', "").trim().split(",").indexOf("failed_rule");
  expect(csvLine(HISTORY_COLUMNS, entry).trim().split('","').slice(column).join('","')).toBe(
    `constraints","max_amount","{""currency"":""EUR"",""max_amount"":""250""}","{""amount"":""300"",""currency"":""EUR""}","full"`,
  );
  const { body } = await app.person.client.get(`/v1/service/receipts/${receipt.receipt_id}`);
  expect(body).toMatchObject({ receipt, receipt_hash });
  const check = await app.person.client.post("/v1/service/receipts/check", { receipt });
  expect(check.body).toEqual({ genuine: true, receipt_hash });
});

test("a platform's setting counts from the next decision, and earlier explanations stay", async () => {
  const app = await limited();
  const sent = async () => (await decide(app, { amount: 251, currency: "EUR" })).receipt;
  const first = await sent();
  expect(first.explanation).toMatchObject({ sent: { amount: "260" }, values: "rounded" });
  await keep(app, "full");
  expect((await sent()).explanation).toMatchObject({ sent: { amount: "251" }, values: "full" });
  await keep(app, "hashed");
  const hashed = await sent();
  expect(hashed.explanation).toMatchObject({ sent: { amount: expect.stringMatching(/^hmac-sha256:/) } });
  expect((await read(app, hashed.receipt_id)).details.explanation).toEqual(hashed.explanation);
  expect((await read(app, first.receipt_id)).details.explanation).toMatchObject({ sent: { amount: "260" } });
  const bad = await app.person.client.call("PATCH", `/v1/service/platforms/${app.platform.platformId}`, {
    body: { explanation_values: "secret" },
  });
  expect(bad.status).toBe(400);
});

test("an allowed decision has no explanation, and neither has a denial of a former version", async () => {
  const app = await limited();
  const allowed = await decide(app, { amount: 250, currency: "EUR" });
  expect(allowed.decision).toBe("allow");
  expect(allowed.receipt).not.toHaveProperty("explanation");
  expect((await read(app, allowed.receipt.receipt_id)).details).not.toHaveProperty("explanation");
  const { receipt } = await decide(app, { amount: 251, currency: "EUR" });
  const own = world.api.db("audit_events").where({ event_id: receipt.receipt_id });
  await own.clone().update({ explanation: null });
  expect((await read(app, receipt.receipt_id)).details).not.toHaveProperty("explanation");
});

test("a denied scope is explained with the scopes of the delegation", async () => {
  const app = await world.application(["data:read", "payments:send"]);
  const { receipt } = await decide(app, {}, { required_scope: "data:share" });
  expect((await read(app, receipt.receipt_id)).details).toMatchObject({
    decision_reason: "not_delegated",
    required_scope: "data:share",
    explanation: { rule: "required_scope", limit: { scope: "data:read payments:send" } },
  });
});

test("a repeated operation has the explanation of its first decision", async () => {
  const app = await limited(BOUND_SCOPE);
  const operation = operationOf(app);
  const context = { amount: 300, currency: "EUR" };
  const answers = [];
  for (let call = 0; call < 2; call += 1) {
    const { body } = await decideOperation(app, await prove(app, operation), operation, { context });
    answers.push(body);
  }
  const [first, second] = answers;
  expect(first).toMatchObject({ decision: "deny", receipt: { explanation: { sent: { amount: "300" } } } });
  expect(second).toEqual({ ...first, replayed: true });
});
