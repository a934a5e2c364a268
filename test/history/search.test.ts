import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import type { AuditEventRow } from "../../src/db/tables.ts";
import { SEARCHED } from "../../src/history/search.ts";
import { newIdAt } from "../../src/ids.ts";
import { runningApi } from "../support/api.ts";
import { createAgent, errorCode, registerPlatform } from "../support/platform_world.ts";

const api = runningApi();
const start = new Date("2026-01-31T23:00:00.000Z");
const EXPORT = "/v1/service/audit/personal/export";

async function account() {
  const person = await api.person();
  const platform = await registerPlatform(person, { name: "Corner Shop" });
  const agentId = await createAgent(api.client(), platform);
  await api.db("agents").where({ agent_id: agentId }).update({ name: "Refund Ärger" });
  const event = (minutes: number, fields: Partial<AuditEventRow> = {}) => {
    const at = addSeconds(start, minutes * 60);
    return {
      account_id: person.accountId,
      occurred_at: at,
      event_id: newIdAt(at),
      event_type: "proof.verified" as const,
      connection_id: platform.connectionId,
      agent_id: agentId,
      human_id: person.humanId,
      cert_id: null,
      decision: "allow" as const,
      decision_reason: "authorized",
      required_scope: "data:read",
      ...fields,
    };
  };
  const keep = (rows: AuditEventRow[] | object[]) => api.db("audit_events").insert(rows as AuditEventRow[]);
  const search = async (words: string, more = "") => {
    const query = `?search=${encodeURIComponent(words)}${more}`;
    const { body, status, ...answer } = await person.client.get(`${EXPORT}${query}`);
    const ids = ((body.events ?? []) as { event_id: string }[]).map(({ event_id }) => event_id);
    return { ...answer, body, status, ids, next: body.next_cursor as string | null };
  };
  return { person, platform, agentId, event, keep, search };
}

describe("a search of the history", () => {
  test("finds events that contain all words, in names, labels, scopes, reasons, results or ids", async () => {
    const { platform, agentId, event, keep, search } = await account();
    await api
      .db("platforms")
      .where({ platform_id: platform.platformId })
      .update({
        scope_descriptions: JSON.stringify({ "custom:x:y": { label: "Pay orders back" } }) as never,
      });
    const denied = { event_type: "proof.rejected", decision: "deny" } as const;
    const rows = [
      event(3, { required_scope: "custom:x:y" }),
      event(2, { ...denied, decision_reason: "not_delegated", required_scope: "payments:send" }),
      event(1, {
        agent_id: "foreign",
        connection_id: "00000000-0000-4000-8000-000000000001",
        verifier_account_id: "00000000-0000-4000-8000-000000000002",
        verifier_platform_name: "Warehouse",
        verifier_organization_name: "Example Traders",
      }),
      event(0, { ...denied, decision: "indeterminate", decision_reason: "revocation_state_unavailable" }),
    ];
    await keep(rows);
    const all = rows.map(({ event_id }) => event_id);
    const [labelled, refused, elsewhere, undecided] = all;
    const cases: [words: string, ids: (string | undefined)[]][] = [
      ["refund", [labelled, refused, undecided]],
      ["äRGER shop", [labelled, refused, undecided]],
      ["orders BACK", [labelled]],
      ["payments", [refused]],
      ["not delegated", [refused]],
      ["not_delegated", [refused]],
      ["denied", [refused]],
      ["not decided", [undecided]],
      ["allowed", [labelled, elsewhere]],
      ["warehouse traders", [elsewhere]],
      [agentId, [labelled, refused, undecided]],
      [agentId.slice(0, 8), []],
      [String(refused).toUpperCase(), [refused]],
      ["%", []],
      ["refund warehouse", []],
    ];
    for (const [words, ids] of cases) expect([words, (await search(words)).ids]).toEqual([words, ids]);
    expect((await search("refund", "&decision=deny")).ids).toEqual([refused]);
    expect((await search("refund", "&since=2026-01-31T23:03:00Z")).ids).toEqual([labelled]);
    const [first, second] = [await search("refund", "&limit=2"), "&limit=2&cursor="];
    expect([first.ids, (await search("refund", `${second}${first.next}`)).ids]).toEqual([
      [labelled, refused],
      [undecided],
    ]);
  });

  test("finds nothing of other accounts", async () => {
    const [own, other] = [await account(), await account()];
    await other.keep([other.event(0)]);
    await own.keep([own.event(0, { agent_id: other.agentId, connection_id: other.platform.connectionId })]);
    expect((await own.search("refund")).ids).toEqual([]);
    expect((await own.search("corner")).ids).toEqual([]);
  });

  test("refuses more than 8 words and empty words", async () => {
    const { search } = await account();
    expect((await search("a b c d e f g h")).status).toBe(200);
    for (const words of ["a b c d e f g h i", " ", "x".repeat(101)]) {
      expect(errorCode(await search(words))).toBe("invalid_request");
    }
  });

  test("reads a bounded part of the history a call, and continues over months without gaps", async () => {
    const { person, event, keep, search } = await account();
    const rare = [event(90, { required_scope: "rare:new" }), event(-40_000, { required_scope: "rare:old" })];
    await keep([...rare, event(0)]);
    await api.db.raw(
      `insert into audit_events (account_id, occurred_at, event_id, event_type, connection_id, agent_id, decision,
         decision_reason, required_scope)
       select account_id, occurred_at - n * interval '1 minute', uuidv7(), event_type, connection_id, agent_id,
         decision, decision_reason, required_scope
       from audit_events, generate_series(1, ?) as n where account_id = ? and required_scope = 'data:read'`,
      [SEARCHED, person.accountId],
    );
    const pages: (typeof rare)[number]["event_id"][][] = [];
    let cursor: string | null = "";
    for (let page = 0; cursor !== null && page < 5; page += 1) {
      const found = await search("rare", cursor === "" ? "" : `&cursor=${cursor}`);
      pages.push(found.ids);
      cursor = found.next;
    }
    expect(pages).toEqual([[rare[0]?.event_id], [rare[1]?.event_id]]);
  });
});
