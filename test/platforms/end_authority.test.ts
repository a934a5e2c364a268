import { describe, expect, test } from "vitest";
import { runningApi } from "../support/api.ts";
import { approve, delegated, selfRequest } from "../support/platform_world.ts";

const api = runningApi();

type Delegated = Awaited<ReturnType<typeof delegated>>;

/** Calls that change many certificates in one transaction. */
const changes: [string, (made: Delegated) => Promise<{ status: number }>][] = [
  [
    "deleting an agent",
    ({ platform, agentId }) =>
      api.client().call("DELETE", `/v1/service/connections/${platform.connectionId}/agents/${agentId}`, {
        headers: { "x-service-api-key": platform.apiKey },
      }),
  ],
  [
    "removing a connection",
    ({ person, platform }) =>
      person.client.call("DELETE", `/v1/service/connections/${platform.connectionId}`),
  ],
  [
    "shrinking a ceiling",
    ({ person, platform }) =>
      person.client.call("PATCH", `/v1/service/platforms/${platform.platformId}`, {
        body: { default_allowed_scopes: ["data:share"] },
      }),
  ],
];

/** Returns the statements of the only transaction that locks certificates during `run`. */
async function certificateTransaction(run: () => Promise<unknown>): Promise<string[]> {
  const seen: { sql: string; __knexTxId?: string }[] = [];
  const note = (query: { sql: string; __knexTxId?: string }) => seen.push(query);
  api.db.on("query", note);
  await run();
  api.db.removeListener("query", note);
  const locking = seen.filter(({ sql }) => holdsCertificates(sql));
  const transactions = new Set(locking.map((query) => query.__knexTxId));
  expect(transactions.size).toBe(1);
  return seen.filter((query) => transactions.has(query.__knexTxId)).map(({ sql }) => sql);
}

function holdsCertificates(sql: string): boolean {
  return /certificates/.test(sql) && /^update|for no key update/.test(sql);
}

async function delegatedOften(count: number): Promise<Delegated> {
  const made = await delegated(api);
  for (let n = 1; n < count; n += 1) {
    const request = await selfRequest(made.person, made.platform.connectionId);
    await approve(made.person, request, ["data:read"]);
  }
  return made;
}

describe.each(changes)("%s", (_, change) => {
  test("locks certificates only in its last statements, to delay decisions as little as possible", async () => {
    const made = await delegatedOften(2);
    const statements = await certificateTransaction(async () =>
      expect((await change(made)).status).toBe(200),
    );
    const held = statements.slice(statements.findIndex(holdsCertificates));
    expect(held.length).toBeLessThanOrEqual(3);
    expect(held.slice(0, -1).every(holdsCertificates)).toBe(true);
    expect(held.at(-1)).toMatch(/^commit/i);
  });

  test("needs as many statements for many certificates as for one", async () => {
    const counts = [];
    for (const certificates of [1, 4]) {
      const made = await delegatedOften(certificates);
      counts.push((await certificateTransaction(() => change(made))).length);
    }
    expect(counts[1]).toBe(counts[0]);
  });
});

test.each(changes.slice(0, 2))(
  "%s reports certificates in their last second, but no expired ones",
  async (_, change) => {
    const made = await delegatedOften(3);
    const rows = await api.db("certificates").where({ agent_id: made.agentId }).orderBy("cert_id");
    const [ended, last, endless] = rows.map(({ cert_id }) => cert_id);
    const now = Math.floor(api.clock.now().getTime() / 1000) * 1000;
    const endAt = (cert_id = "", at = 0) =>
      api
        .db("certificates")
        .where({ cert_id })
        .update({ expires_at: new Date(at) });
    await endAt(ended, now - 1);
    await endAt(last, now);
    expect((await change(made)).status).toBe(200);
    const reported = (await api.events(made.platform.connectionId)).filter(
      ({ event }) => event === "delegation.revoked",
    );
    expect(reported.map((event) => event.cert_id).sort()).toEqual([last, endless].sort());
  },
);

test("deleting an agent emits one event for each of its certificates", async () => {
  const made = await delegatedOften(4);
  for (let n = 0; n < 2; n += 1) await changes[0]?.[1](made);
  const certificates = await api.db("certificates").where({ agent_id: made.agentId });
  const reported = (await api.events(made.platform.connectionId)).filter(
    ({ event }) => event === "delegation.revoked",
  );
  expect(certificates.map(({ status }) => status)).toEqual(Array(4).fill("revoked"));
  expect(reported.map((event) => event.cert_id).sort()).toEqual(
    certificates.map((row) => row.cert_id).sort(),
  );
});
