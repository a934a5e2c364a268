import { hash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import { XSS_CORPUS } from "../../support/xss_corpus.ts";
import { browserOf, unescaped } from "../support/console.ts";
import { historyViewer } from "./viewer.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const PATH = "/console/receipts/check";

async function downloaded() {
  const seen = await historyViewer(api);
  const file = await seen.client.get(`/console/history/${seen.ids.denied}/receipt`);
  return { seen, file };
}

describe("a receipt", () => {
  test("can be downloaded as exactly the bytes that its hash covers", async () => {
    const { seen, file } = await downloaded();
    expect(file.headers.get("content-disposition")).toBe(
      `attachment; filename="receipt-${seen.ids.denied}.json"`,
    );
    const { words } = await seen.open(`/console/history/${seen.ids.denied}`);
    expect(words).toContain(`sha256:${hash("sha256", file.text)}`);
    expect(words).toContain(`sha256sum receipt-${seen.ids.denied}.json`);
    expect(words).toContain("The receipt matches its hash");
  });

  test("causes a warning if it was changed in the database", async () => {
    const { seen } = await downloaded();
    const row = api.db("audit_events").where({ event_id: seen.ids.denied ?? "" });
    await row.update({ receipt: api.db.raw("replace(receipt, 'deny', 'allow')") });
    const { words } = await seen.open(`/console/history/${seen.ids.denied}`);
    expect(words).toContain("The receipt does not match its hash");
    expect(words).not.toContain("The receipt matches its hash");
  });

  test("appears with the outcome that the application reported", async () => {
    const { seen } = await downloaded();
    for (const detail of XSS_CORPUS.slice(0, 3)) {
      const id = await seen.decide(50);
      const row = await api.db("audit_events").where({ event_id: id }).first();
      await api.db("outcomes").insert({
        account_id: seen.accountId,
        decided_at: row?.occurred_at ?? new Date(),
        event_id: id,
        outcome: "failed",
        detail,
        occurred_at: api.clock.now(),
        recorded_at: api.clock.now(),
      });
      const { words, text } = await seen.open(`/console/history/${id}`);
      expect(words).toContain("The application tried, and failed");
      expect(unescaped(text)).toContain(detail);
      expect(text).not.toContain(detail);
    }
  });
});

describe("a pasted receipt", () => {
  test("appears as genuine to every viewer, whether it was downloaded or returned by the API", async () => {
    const { seen, file } = await downloaded();
    const answer = await seen.client.get(`/v1/service/receipts/${seen.ids.denied}`);
    const stranger = browserOf(api, (await api.person()).client);
    for (const receipt of [file.text, `  ${file.text}\n`, answer.text]) {
      const checked = await (await stranger.open(PATH)).send("check", { receipt });
      expect(checked.words).toContain("Genuine and unchanged");
      expect(checked.words).toContain("payments:send");
      expect(checked.words).not.toContain("is another one");
    }
  });

  test("appears as not genuine if one word was changed, and a wrong hash next to a receipt is reported", async () => {
    const { seen, file } = await downloaded();
    const page = await seen.open(PATH);
    const changed = await page.send("check", { receipt: file.text.replace("deny", "allow") });
    expect(changed.words).toContain("Not genuine");
    const answer = await seen.client.get(`/v1/service/receipts/${seen.ids.denied}`);
    const beside = JSON.stringify({ ...answer.body, receipt_hash: "sha256:00" });
    expect((await page.send("check", { receipt: beside })).words).toContain("is another one");
  });

  test.each([
    "",
    "text that is not JSON",
    "[]",
    "1",
    '"text"',
    "null",
    "{}",
    '{"a":1,"a":2}',
    '{"receipt":{}}',
    "{".repeat(900),
  ])("causes an error at its field if it is %s", async (receipt) => {
    const { client } = await api.person();
    const page = await browserOf(api, client).open(PATH);
    const refused = await page.send("check", { receipt });
    expect(refused.status).toBe(400);
    expect(refused.words).toContain("This is not a receipt: it must be complete JSON");
    expect(refused.text).toContain('aria-invalid="true"');
  });

  test("escapes text from untrusted parties, and requires the form's token", async () => {
    const { client } = await api.person();
    const page = await browserOf(api, client).open(PATH);
    for (const strange of XSS_CORPUS) {
      const checked = await page.send("check", {
        receipt: JSON.stringify({ required_scope: strange, decision: strange, receipt_hash: strange }),
      });
      expect(checked.status).toBe(200);
      expect(unescaped(checked.text)).toContain(strange);
      if (/[<>"']/.test(strange)) expect(checked.text).not.toContain(strange);
    }
    const forged = await page.send("check", { receipt: '{"a":1}', csrf: "x" });
    expect(forged.words).not.toContain("genuine");
  });
});
