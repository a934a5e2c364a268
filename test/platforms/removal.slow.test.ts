import { afterEach, expect, test } from "vitest";
import { runningApi } from "../support/api.ts";
import { copyCustomers } from "../support/many_customers.ts";
import { killRoles, type RoleProcess, startRole } from "../support/role_process.ts";
import { connect, lend, publisher } from "../support/two_companies.ts";

const api = runningApi();
const CUSTOMERS = 400;

const workers: RoleProcess[] = [];
afterEach(() => killRoles(workers));

function startWorker(): RoleProcess {
  const worker = startRole("worker", {
    DATABASE_URL: api.databaseUrl,
    SEALING_KEY: api.sealingKey.toString("base64"),
    PATH: process.env.PATH ?? "",
  });
  workers.push(worker);
  return worker;
}

const left = async (): Promise<number> => {
  const { rows } = await api.db.raw(
    "select count(*)::int as count from connections where end_due_at is not null",
  );
  return rows[0].count;
};

test("a worker that is killed in the middle of a removal leaves the rest to another one, and nothing twice", async () => {
  const shop = await publisher(api);
  const customer = await connect(api, shop);
  await lend(api, customer);
  const ids = [...(await copyCustomers(api.db, customer.connectionId, CUSTOMERS)), customer.connectionId];
  const path = `/v1/service/connections/${shop.platform.connectionId}`;
  const removal = () => shop.person.client.call("DELETE", path);
  expect((await removal()).body.removed_at).toBeNull();
  const most = await left();
  const killed = startWorker();
  await expect.poll(left, { timeout: 60_000, interval: 5 }).toBeLessThan(most - 20);
  killed.child.kill("SIGKILL");
  await killed.exit;
  expect(await left()).toBeGreaterThan(0);
  expect((await removal()).body.removed_at).toBeNull();
  startWorker();
  await expect.poll(left, { timeout: 60_000 }).toBe(0);
  expect((await removal()).body.removed_at).not.toBeNull();
  // An event that is being handed to its delivery is in both tables for a moment.
  const { rows } = await api.db.raw(
    `select string_agg(type, ' ' order by place) as types from (
       select aggregateid as id, aggregate_seq as place, type from outbox union
       select customer_connection_id::text, aggregate_seq & x'ffffffff'::bigint, event_type from webhook_deliveries
     ) as events
     where id = any (?::text[]) and type in ('delegation.revoked', 'connection.removed')
     group by id`,
    [ids],
  );
  expect(rows).toEqual(ids.map(() => ({ types: "delegation.revoked connection.removed" })));
});
