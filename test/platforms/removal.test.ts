import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import {
  lockConnections,
  removeConnections,
  stepEnds,
} from "../../src/platforms/connections/end_connections.ts";
import { connectScene } from "../connect/scene.ts";
import { runningApi } from "../support/api.ts";
import { copyCustomers } from "../support/many_customers.ts";
import { errorCode } from "../support/platform_world.ts";
import {
  ask,
  challengeOf,
  connect,
  keyed,
  lend,
  outcomeOf,
  type Publisher,
  proofOver,
  publisher,
} from "../support/two_companies.ts";

const api = runningApi();
const MANY = 250;

const worker = () => ({ database: api.db, secretBox: api.secretBox, log: api.log });
const remove = ({ person, platform }: Publisher) =>
  person.client.call("DELETE", `/v1/service/connections/${platform.connectionId}`);
const platformOf = ({ person, platform }: Publisher) =>
  person.client.get(`/v1/service/platforms/${platform.platformId}`);
const rowOf = async (connectionId: string) =>
  (await api.db("connections").where({ connection_id: connectionId }).first())!;

/** Lets a worker end connections until it finds none. */
async function work(): Promise<void> {
  while (await stepEnds(worker())) await sleep(0);
}

/** A platform with a customer that lends, and with many copies of this customer. */
async function crowded(count = MANY) {
  const shop = await publisher(api);
  const customer = await connect(api, shop);
  const lent = await lend(api, customer);
  const copies = await copyCustomers(api.db, customer.connectionId, count);
  return { shop, customer, lent, ids: [...copies, customer.connectionId] };
}

/** Checks that each connection ended once, in order, with all that it had. */
async function expectEnded(ids: readonly string[]): Promise<void> {
  const { rows } = await api.db.raw(
    `select string_agg(type, ' ' order by aggregate_seq) as types, count(distinct aggregate_seq)::int as numbers
     from outbox where aggregateid = any (?::text[]) and type in ('delegation.revoked', 'connection.removed')
     group by aggregateid`,
    [[...ids]],
  );
  expect(rows).toHaveLength(ids.length);
  for (const row of rows) expect(row).toEqual({ types: "delegation.revoked connection.removed", numbers: 2 });
  const of = (table: string) => api.db(table).whereIn("connection_id", [...ids]);
  expect(await of("certificates").whereNot({ status: "revoked" })).toEqual([]);
  expect(await of("agents").whereNull("disabled_at")).toEqual([]);
  expect(
    await of("connections").where((is) => is.whereNull("removed_at").orWhereNotNull("end_due_at")),
  ).toEqual([]);
}

describe("a platform with 250 customers that is removed", () => {
  test("remains visible as removing until two workers have ended every connection once, in order", async () => {
    const { shop, ids } = await crowded();
    const answer = await remove(shop);
    expect([answer.status, answer.body.removed_at]).toEqual([200, null]);
    expect((await platformOf(shop)).body).toMatchObject({ state: "removing", api_key_prefix: null });
    const { body } = await shop.person.client.get("/v1/service/platforms");
    expect(body.items).toMatchObject([{ platform_id: shop.platform.platformId, state: "removing" }]);
    await Promise.all([work(), work()]);
    await work();
    await expectEnded(ids);
    expect((await platformOf(shop)).status).toBe(404);
    const { removed_at } = (await remove(shop)).body;
    expect(removed_at).toBe((await rowOf(shop.platform.connectionId)).removed_at?.toISOString());
  });

  test("refuses keys, agents, requests, approvals and customers from the response on", async () => {
    const { shop, customer, lent } = await crowded();
    const requestId = await ask(api, customer, lent);
    const proof_bundle = await proofOver(api, await challengeOf(api, customer), lent);
    await remove(shop);
    const verify = { proof_bundle, required_scope: "data:read" };
    expect((await keyed(api, customer, "/v1/service/verify", verify)).status).toBe(401);
    expect((await keyed(api, shop.platform, "/v1/service/challenge")).status).toBe(401);
    const approval = await customer.person.client.post(
      `/v1/service/delegations/requests/${requestId}/approve`,
      { approved_scope: ["data:read"] },
    );
    expect([approval.status, errorCode(approval)]).toEqual([404, "not_found"]);
    await expect(ask(api, customer, lent)).rejects.toMatchObject({ code: "not_found" });
    await expect(connect(api, shop)).rejects.toMatchObject({ code: "not_found" });
    const path = `/v1/service/platforms/${shop.platform.platformId}`;
    const changed = await shop.person.client.call("PATCH", path, { body: { name: "Other" } });
    expect(changed.status).toBe(404);
    const products = await customer.person.client.get("/v1/service/connected-products");
    expect(products.body.items).toEqual([]);
    await work();
    expect((await api.events(customer.connectionId)).slice(-2)).toMatchObject([
      { event: "delegation.revoked", cert_id: lent.certId },
      { event: "connection.removed" },
    ]);
    expect(await api.db("delegation_requests").where({ request_id: requestId })).toMatchObject([
      { status: "withdrawn" },
    ]);
  });

  test("shows the customer what decisions see, also before the worker has ended the connection", async () => {
    const { shop, customer, lent } = await crowded();
    await remove(shop);
    const removedAt = (await rowOf(customer.connectionId)).removed_at?.toISOString();
    const shown = async () => {
      const read = async (path: string) => (await customer.person.client.get(`/v1/service/${path}`)).body;
      const count = async (path: string) => ((await read(path)).items as object[]).length;
      return {
        certificate: await read(`delegations/${lent.certId}`),
        listed: (await read(`delegations/${lent.certId}/chain`)).revocation_list,
        agent: await read(`agents/${lent.agentId}`),
        counts: await Promise.all(
          [
            ...["delegations?state=active", "delegations?status=approved", "agents", "connected-products"],
            ...["delegations?state=revoked", "delegations?status=revoked", "agents?state=deleted"],
          ].map(count),
        ),
      };
    };
    const [before] = [await shown(), await work()];
    for (const { certificate, agent, counts } of [before, await shown()]) {
      expect(certificate).toMatchObject({ status: "revoked", revoke_reason: "connection removed" });
      expect(agent).toMatchObject({ disabled_at: expect.any(String), active_delegations: 0 });
      expect(counts).toEqual([0, 0, 0, 0, 1, 1, 1]);
    }
    expect([before.certificate.revoked_at, before.agent.disabled_at]).toEqual([removedAt, removedAt]);
    expect(before.listed).toMatchObject({ listed: false });
  });

  test("denies a decision under way that reads the connection after the removal", async () => {
    const { shop, customer, lent, ids } = await crowded();
    const proof_bundle = await proofOver(api, await challengeOf(api, customer), lent);
    const body = { proof_bundle, required_scope: "data:read" };
    const removal = await api.db.transaction();
    await removal.raw("select end_later(?::uuid[], now())", [ids]);
    const deciding = keyed(api, customer, "/v1/service/verify", body);
    await expect.poll(async () => (await waiting(/key share/)).length).toBe(1);
    await removal.commit();
    expect(outcomeOf(await deciding)).toBe("deny delegation_revoked");
    const [certificate] = await api.db("certificates").where({ cert_id: lent.certId });
    expect(certificate).toMatchObject({ status: "approved" });
    await remove(shop);
    await work();
  });

  test("answers only after the decisions that read a connection before", async () => {
    const { shop, customer, lent } = await crowded();
    const proof_bundle = await proofOver(api, await challengeOf(api, customer), lent);
    const body = { proof_bundle, required_scope: "data:read" };
    const holder = await api.db.transaction();
    await holder("certificates").where({ cert_id: lent.certId }).forNoKeyUpdate();
    const ended: string[] = [];
    const deciding = keyed(api, customer, "/v1/service/verify", body).finally(() => ended.push("decision"));
    await expect.poll(async () => (await waiting(/key share/)).length).toBe(1);
    const removing = remove(shop).finally(() => ended.push("removal"));
    await expect.poll(async () => (await waiting(/end_later/)).length).toBe(1);
    await holder.commit();
    expect(outcomeOf(await deciding)).toBe("allow authorized");
    expect((await removing).status).toBe(200);
    expect(ended).toEqual(["decision", "removal"]);
    await work();
  });

  test("ends the others while one connection cannot end, and tries that one again", async () => {
    const { shop, customer, ids } = await crowded();
    await remove(shop);
    const [stuck = "", ...others] = [customer.connectionId, ...ids.slice(0, -1)];
    const { next_event_seq } = await rowOf(stuck);
    const blocker = crypto.randomUUID();
    await api.db.raw(
      `insert into outbox overriding system value select (jsonb_populate_record(o, jsonb_build_object('id', -1, 'event_id', ?::uuid, 'aggregate_seq', ?::int))).*
       from outbox o where aggregateid = ? limit 1`,
      [blocker, next_event_seq, stuck],
    );
    await work();
    await expectEnded(others);
    expect((await platformOf(shop)).body).toMatchObject({ state: "removing" });
    expect(api.lines.join("\n")).toContain("a removed connection has not ended yet");
    await api.db("outbox").where({ event_id: blocker }).delete();
    const soon = await rowOf(stuck);
    expect(soon.end_due_at!.getTime()).toBeGreaterThan(Date.now());
    await work();
    expect((await rowOf(stuck)).end_due_at).not.toBeNull();
    await api.db("connections").where({ connection_id: stuck }).update({ end_due_at: new Date() });
    await work();
    await expectEnded(ids);
    expect((await platformOf(shop)).status).toBe(404);
  });
});

test("exchanges that race with a removal leave no live connection", async () => {
  const { product, code, exchange } = connectScene(api);
  const shop = await product();
  const people = await Promise.all(Array.from({ length: 8 }, () => api.person()));
  const codes = await Promise.all(people.map((person) => code(shop, person)));
  const [removed, ...answers] = await Promise.all([
    sleep(20).then(() => shop.owner.client.call("DELETE", `/v1/service/connections/${shop.connectionId}`)),
    ...codes.map(async (known, n) => sleep(n * 8).then(() => exchange(shop, known))),
  ]);
  expect(removed?.status).toBe(200);
  await work();
  const made = answers.filter(({ status }) => status === 200);
  const rows = await api.db("connections").where({ product_id: shop.platformId });
  expect(rows).toHaveLength(made.length);
  expect(rows.every(({ removed_at, end_due_at }) => removed_at !== null && end_due_at === null)).toBe(true);
  for (const { body } of made) {
    const used = await keyed(api, { apiKey: String(body.access_token) }, "/v1/service/challenge");
    expect(used.status).toBe(401);
    const events = await api.events(String(body.connection_id));
    expect(events.map(({ event }) => event)).toEqual(["connection.created", "connection.removed"]);
  }
});

test("a deleted account's connections with 25 products end, and other customers' do not", async () => {
  const shop = await publisher(api);
  const customer = await connect(api, shop);
  const another = await connect(api, shop);
  const platform = (await api.db("platforms").where({ platform_id: shop.platform.platformId }).first())!;
  for (let n = 0; n < 24; n += 1) {
    const other = await publisher(api);
    expect(other.platform.platformId).not.toBe(platform.platform_id);
    await connect(api, other, { person: customer.person });
  }
  const { accountId } = customer.person;
  const retired = await api.db.transaction(async (tx) => {
    await lockConnections(tx, accountId);
    return removeConnections(tx, api.secretBox, [accountId], api.clock.now());
  });
  expect(retired).toHaveLength(25);
  const theirs = () => api.db("connections").where({ customer_account_id: accountId });
  expect(await theirs().whereNull("removed_at")).toEqual([]);
  expect(await theirs().whereNotNull("end_due_at")).toHaveLength(5);
  await work();
  expect(await theirs().whereNotNull("end_due_at")).toEqual([]);
  for (const { connection_id } of await theirs()) {
    expect((await api.events(connection_id)).at(-1)).toMatchObject({ event: "connection.removed" });
  }
  expect(await rowOf(another.connectionId)).toMatchObject({ removed_at: null, end_due_at: null });
  expect(await rowOf(shop.platform.connectionId)).toMatchObject({ removed_at: null, end_due_at: null });
});

test("a declared platform's removal is confirmed only after its last connection has ended", async () => {
  const shop = await publisher(api);
  const external_id = `c1.${crypto.randomUUID()}`;
  const { platformId: platform_id } = shop.platform;
  await api.db("platforms").where({ platform_id }).update({ external_id, object_namespace: "default" });
  const customer = await connect(api, shop);
  await lend(api, customer);
  await copyCustomers(api.db, customer.connectionId, 30);
  const path = `/internal/v1/platforms/${external_id}`;
  expect((await api.operator("DELETE", path)).body).toEqual({ removed: false });
  expect((await api.operator("DELETE", path)).body).toEqual({ removed: false });
  await work();
  expect((await api.operator("DELETE", path)).body).toEqual({ removed: true });
});

/** Returns the statements that wait for a lock and match a pattern. */
async function waiting(pattern: RegExp): Promise<string[]> {
  const { rows } = await api.db.raw<{ rows: { query: string }[] }>(
    "select query from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
  );
  return rows.map(({ query }) => query).filter((query) => pattern.test(query));
}
