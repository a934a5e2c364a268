import { randomUUID } from "node:crypto";
import { Pool } from "pg";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { claimNotices } from "../../src/accounts/notices/queue.ts";
import { addSeconds } from "../../src/clock.ts";
import { expireRequests } from "../../src/delegations/delegation_records.ts";
import { removeOld } from "../../src/events/retention.ts";
import { recheckDomains } from "../../src/organizations/verify_domain.ts";
import { insertNotice } from "../support/account_rows.ts";
import { runningApi, type TestApi } from "../support/api.ts";
import { insertDelivery } from "../support/deliveries.ts";
import { heldRows } from "../support/held_rows.ts";
import { requested } from "../support/platform_world.ts";
import { ORGANIZATION, owned, type Sql } from "./races.ts";

const api = runningApi();
let pool: Pool;
beforeAll(() => {
  pool = new Pool({ connectionString: api.databaseUrl, max: 2 });
});
afterAll(() => pool.end());
const { hold, untilBlocked } = heldRows(() => pool);

const DAY = 24 * 60 * 60;
const ago = (days: number) => addSeconds(api.clock.now(), -days * DAY);

/** Work on due rows, and a due row that another process holds. `touched` reads what the work did with it. */
type Skipping = { holds: Sql; work(): Promise<unknown>; touched(): Promise<unknown> };

const rows: [title: string, prepare: (api: TestApi) => Promise<Skipping>][] = [
  [
    "claiming notices",
    async ({ db, clock, ...rest }) => {
      const { accountId } = await rest.person();
      const event_id = await insertNotice(db, { accountId, at: clock.now() });
      return {
        holds: ["select from notices where event_id = $1 for update", event_id],
        work: () => claimNotices(db, 10, clock.now()),
        touched: () => db("notices").where({ event_id }).whereNot({ attempts: 0 }),
      };
    },
  ],
  [
    "the daily lookup of domains",
    async ({ db, clock, ...rest }) => {
      const { client } = await rest.person({ organization_name: "Engines" });
      const domain = `d${randomUUID()}.example.com`;
      await client.post(`${ORGANIZATION}/domains`, { domain });
      await db("organization_domains")
        .where({ domain })
        .update({ verified_at: ago(2), checked_at: ago(2) });
      const asked: string[] = [];
      return {
        holds: ["select from organization_domains where domain = $1 for update", domain],
        work: () =>
          recheckDomains({
            ...{ db, clock, word: "service", log: pino({ level: "silent" }) },
            signal: AbortSignal.timeout(60_000),
            async lookupTxt(name) {
              asked.push(name);
              return "found";
            },
          }),
        touched: async () => asked,
      };
    },
  ],
  [
    "the expiry of requests",
    async (running) => {
      const { person, requestId } = await requested(running);
      const own = { request_id: requestId };
      await running
        .db("delegation_requests")
        .where(own)
        .update({ expires_at: ago(1) });
      return {
        holds: ["select from delegation_requests where request_id = $1 for update", requestId],
        work: () => expireRequests(running.db, person.accountId, running.clock.now()),
        touched: () => running.db("delegation_requests").where({ ...own, status: "expired" }),
      };
    },
  ],
  ...(["failed", "held"] as const).map((state): (typeof rows)[number] => [
    `the retention of ${state} deliveries`,
    async (running) => {
      const { platform } = await owned(running);
      const id = await insertDelivery(running.db, platform.connectionId, { state, at: ago(31) });
      return {
        holds: ["select from webhook_deliveries where delivery_id = $1 for update", id],
        work: () => removeOld(running.db, running.clock.now()),
        touched: async () => {
          const kept = await running.db("webhook_deliveries").where({ delivery_id: id, state });
          return kept.length === 1 ? [] : ["the delivery"];
        },
      };
    },
  ]),
];

test.each(rows)("%s skips a row that another process has locked, and does not wait", async (_, prepare) => {
  const { holds, work, touched } = await prepare(api);
  const [text, ...values] = holds;
  const held = await hold(text, values);
  const working = work();
  const first = await Promise.race([working.then(() => "does not wait"), untilBlocked().then(() => "waits")]);
  await held.commit();
  await working;
  expect([first, await touched()]).toEqual(["does not wait", []]);
});
