import { type IncomingMessage, request } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { csvHead, csvLine } from "../../../src/console/elements/list_file.ts";
import { HISTORY_COLUMNS } from "../../../src/console/pages/history/export.ts";
import type { NamedEntry } from "../../../src/history/history_entry.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { XSS_CORPUS } from "../../support/xss_corpus.ts";
import { type HistoryViewer, historyViewer } from "./viewer.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const PATH = "/console/history/export";
type Line = { event_id: string; complete?: boolean; events?: number };

const linesOf = (text: string) =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);

/** Creates a history with this number of additional events, one second apart. */
async function longHistory(number: number): Promise<HistoryViewer> {
  const seen = await historyViewer(api);
  await api.db.raw(
    `insert into audit_events (account_id, occurred_at, event_id, event_type, connection_id, agent_id, decision,
       decision_reason, required_scope)
     select account_id, occurred_at - n * interval '1 second', uuidv7(), event_type, connection_id, agent_id,
       decision, decision_reason, required_scope
     from audit_events, generate_series(1, ?) as n where event_id = ?`,
    [number, seen.ids.allowed ?? ""],
  );
  return seen;
}

/** Parses a CSV file by RFC 4180, independently of the code that wrote the file. */
function cellsOf(text: string): string[][] {
  return [...text.matchAll(/((?:"(?:[^"]|"")*",?)+)\r\n/g)].map(([, line = ""]) =>
    [...line.matchAll(/"((?:[^"]|"")*)"/g)].map(([, cell = ""]) => cell.replaceAll('""', '"')),
  );
}

describe("the history as a file", () => {
  test("has a line for each event over many pages, newest first, and says that the file is complete", async () => {
    const seen = await longHistory(2_500);
    const file = await seen.client.get(`${PATH}?format=ndjson`);
    expect(file.headers.get("content-type")).toBe("application/x-ndjson");
    expect(file.headers.get("content-length")).toBeNull();
    expect(file.headers.get("content-disposition")).toMatch(
      /^attachment; filename="history-\d{4}-\d\d-\d\d\.ndjson"$/,
    );
    const lines = linesOf(file.text);
    expect(lines.at(-1)).toEqual({ complete: true, events: 2_503 });
    const ids = lines.slice(0, -1).map(({ event_id }) => event_id);
    expect([ids.length, new Set(ids).size]).toEqual([2_503, 2_503]);
    expect(ids.slice(0, 3)).toEqual([seen.ids.elsewhere, seen.ids.denied, seen.ids.allowed]);
  });

  test("continues after the last event of an interrupted file", async () => {
    const seen = await historyViewer(api);
    const { denied, allowed } = seen.ids;
    const lines = linesOf((await seen.client.get(`${PATH}?format=ndjson&before=${denied}`)).text);
    expect(lines.slice(0, -1).map(({ event_id }) => event_id)).toEqual([allowed]);
    expect((await seen.client.get(`${PATH}?format=ndjson&before=nothing`)).status).toBe(400);
  });

  test("contains only events that match the filter and belong to the account", async () => {
    const seen = await historyViewer(api);
    const lines = linesOf((await seen.client.get(`${PATH}?format=ndjson&result=deny`)).text);
    expect(lines.map(({ event_id }) => event_id)).toEqual([seen.ids.denied, undefined]);
    const stranger = await api.person();
    expect(linesOf((await stranger.client.get(`${PATH}?format=ndjson`)).text)).toEqual([
      { complete: true, events: 0 },
    ]);
  });

  test("can be recognized as incomplete if the download is aborted", async () => {
    const seen = await longHistory(3_000);
    const cookie = `service_session=${seen.client.cookie("service_session")}`;
    const broken = await new Promise<{ error?: unknown; text: string }>((resolve) => {
      let text = "";
      const call = request(`${api.url}${PATH}?format=csv`, { headers: { cookie } }, (response) => {
        response.once("data", async () => {
          response.pause();
          await api.db("sessions").update({ expires_at: new Date(0) });
          response.resume();
        });
        response.on("data", (part: Buffer) => {
          text += part.toString();
        });
        response.on("error", (error) => resolve({ error, text }));
        response.on("end", () => resolve({ text }));
      });
      call.end();
    });
    expect(broken.error).toMatchObject({ code: "ECONNRESET" });
    expect(cellsOf(broken.text).length).toBeLessThan(3_004);
  });

  test("can be downloaded three times concurrently by one person, without affecting other people", async () => {
    const seen = await longHistory(20_000);
    const cookie = `service_session=${seen.client.cookie("service_session")}`;
    const slow = () =>
      new Promise<IncomingMessage>((resolve, reject) => {
        request(`${api.url}${PATH}`, { headers: { cookie }, agent: false }, (response) =>
          resolve(response.pause()),
        )
          .on("error", reject)
          .end();
      });
    const open = await Promise.all([slow(), slow(), slow()]);
    expect(open.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200]);
    const refused = await seen.client.get(PATH);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "10"]);
    expect(refused.text).toContain("wait until one is complete");
    expect((await seen.client.get("/console/history")).status).toBe(200);
    expect((await (await historyViewer(api)).client.get(PATH)).status).toBe(200);
    for (const each of open) each.destroy();
    await expect.poll(async () => (await seen.client.call("HEAD", PATH)).status).toBe(200);
    for (let count = 0; count < 5; count += 1) {
      expect((await seen.client.call("HEAD", PATH)).status).toBe(200);
    }
  });

  test("has no content in the answer to HEAD", async () => {
    const seen = await historyViewer(api);
    const answer = await seen.client.call("HEAD", `${PATH}?format=csv`);
    expect([answer.status, answer.text]).toEqual([200, ""]);
  });
});

describe("a CSV file", () => {
  const event = (text: string): NamedEntry => ({
    event_id: "id",
    event_type: "proof.verified",
    occurred_at: "2026-01-01T00:00:00.000Z",
    agent_id: "agent",
    cert_id: null,
    connection_id: "connection",
    details: {
      ...{ decision: "deny", required_scope: text, decision_reason: text, action_profile: text },
      explanation: { rule: "constraints", constraint: text, sent: { path: text } },
    },
    agent_name: text,
    platform_id: null,
    platform_name: text,
    human_id: null,
    scope_label: null,
    receipt_hash: null,
  });

  test("contains UTF-8 with a header line, and a line for each event", async () => {
    const seen = await historyViewer(api);
    const file = await seen.client.get(`${PATH}?format=csv`);
    expect(file.headers.get("content-type")).toBe("text/csv; charset=utf-8; header=present");
    const [names, ...lines] = cellsOf(
      csvHead(HISTORY_COLUMNS) + file.text.split("\r\n").slice(1).join("\r\n"),
    );
    expect(names?.[0]).toBe("occurred_at");
    expect(lines.map((cells) => cells[1])).toEqual([seen.ids.elsewhere, seen.ids.denied, seen.ids.allowed]);
    expect(lines[1]?.slice(3, 6)).toEqual(["deny", "not_delegated", "payments:send"]);
  });

  test.each([
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\u00a0=1",
    "\uff1d1",
    "=cmd|' /C calc'!A0",
    '=HYPERLINK("https://attacker.example")',
  ])("marks %j as text, not as a formula", (formula) => {
    const [cells] = cellsOf(csvLine(HISTORY_COLUMNS, event(formula)));
    expect(cells?.filter((cell) => cell.endsWith(formula))).toHaveLength(6);
    for (const cell of cells ?? []) if (cell.endsWith(formula)) expect(cell).toBe(`'${formula}`);
  });

  test.each(["a,b", 'say "no"', "one\r\ntwo", "plain", "a=b", ...XSS_CORPUS])(
    "keeps %j unchanged",
    (text) => {
      const [cells] = cellsOf(csvLine(HISTORY_COLUMNS, event(text)));
      expect(cells).toHaveLength(21);
      expect(JSON.parse(cells?.at(-2) ?? "")).toEqual({ path: text });
      expect(cells?.filter((cell) => cell === text || cell === `'${text}`)).toHaveLength(6);
    },
  );
});
