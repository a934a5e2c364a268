import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { systemClock } from "../../src/clock.ts";
import type { Database } from "../../src/db/database.ts";
import { newApiKey } from "../../src/platforms/api_keys/api_key.ts";
import { removeConnection } from "../../src/platforms/connections/connection_changes.ts";
import {
  makeConnection,
  makeCustomer,
  secretBox,
  type TestConnection,
} from "../events/support/connection.ts";
import { SEALING_KEY } from "../events/support/worker.ts";
import { insertApproval } from "../support/account_rows.ts";
import { copyCustomers } from "../support/many_customers.ts";
import { startApiProcess } from "./api_process.ts";
import { withBenchDatabase } from "./database.ts";
import { makeConnections, runLoad } from "./events/load.ts";
import { type BenchReceivers, startReceivers } from "./events/receiver.ts";
import { startBenchWorker } from "./events/worker_child.ts";
import { createRecord, type FigureRecord } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { percentiles, times } from "./timing.ts";

/**
 * Measures a platform with 10,000 customers, each with an agent and a delegation: the publisher's list, the
 * call that removes the platform, and the time until the last connection has ended. The receiver of its
 * events hangs. Meanwhile, other platforms get events. Run `node test/bench/customers.ts`.
 */
const CUSTOMERS = 10_000;
const ROUNDS = 2;
const PAGES = 20;
const DEEP_PAGES = 50;
const OTHERS = 50;
const PER_SECOND = 40;
const LOAD_SECONDS = 20;
const WARM_SECONDS = 3;
const AFTERWARDS_MS = 3_000;
const POLL_MS = 50;
const PATH = "/v1/service/platforms";

type Shop = TestConnection & { apiKey: string };
type Place = { db: Database; port: number; receivers: BenchReceivers; record: FigureRecord };

await withBenchDatabase({}, async ({ db, url, folder }) => {
  const receivers = await startReceivers();
  const api = await startApiProcess(folder, url, Buffer.from(SEALING_KEY, "base64"));
  const worker = startBenchWorker(url);
  const record = createRecord();
  try {
    const place = { db, port: api.port, receivers, record };
    receivers.hang((number) => number === 0);
    const others = await makeConnections(
      db,
      Array.from({ length: OTHERS }, (_, n) => receivers.url(n + 1)),
    );
    for (let round = 0; round < ROUNDS; round += 1) await measureRound(place, others, round);
  } finally {
    await receivers.close();
    await worker.stop();
    await api.stop();
  }
  const [over, under] = ["others' events during a removal: p99", "others' events before: p99"];
  report({ figures: record.figures(), ratios: [{ name: `${over} / before`, over, under }] });
});

async function measureRound(place: Place, others: TestConnection[], round: number): Promise<void> {
  const shop = await makeShop(place);
  await measureLists(place, shop);
  await measureOthers(place, others, { name: "others' events before", part: 2 * round });
  const during = measureOthers(place, others, {
    name: "others' events during a removal",
    part: 2 * round + 1,
  });
  await sleep(WARM_SECONDS * 1_000);
  await measureRemoval(place, shop);
  await during;
}

async function makeShop({ db, receivers }: Place): Promise<Shop> {
  const shop = await makeConnection(db, receivers.url(0));
  const { apiKey, prefix, hash } = newApiKey();
  const own = { connection_id: shop.connectionId };
  await db("api_keys").where(own).update({ key_prefix: prefix, key_hash: hash });
  const customer = await makeCustomer(db, shop);
  const { connectionId, accountId } = customer;
  const agentId = randomBytes(16).toString("hex");
  const now = new Date();
  await db("api_keys").insert({
    ...{ key_prefix: agentId, key_hash: Buffer.alloc(32), account_id: shop.accountId },
    ...{ connection_id: connectionId, created_at: now },
  });
  await db("agents").insert({
    ...{ agent_id: agentId, account_id: accountId, connection_id: connectionId, name: "bot" },
    ...{ agent_type: "robot", custody_mode: "custodial", created_at: now },
    public_key: { ed25519: "", ml_dsa_65: "" },
  });
  const rows = { certId: `cert-${agentId}`, json: "{}", scope: ["data:read"], now };
  await insertApproval(db, { accountId, connectionId, agentId }, rows as never);
  await copyCustomers(db, connectionId, CUSTOMERS - 1);
  await db.raw("analyze");
  return { ...shop, apiKey };
}

async function measureLists({ port, record }: Place, { platformId, apiKey }: Shop): Promise<void> {
  const list = async (query: string) => {
    const address = `http://127.0.0.1:${port}${PATH}/${platformId}/customers?${query}`;
    const answer = await fetch(address, { headers: { "x-service-api-key": apiKey } });
    if (answer.status !== 200) throw new Error(await answer.text());
    return (await answer.json()) as { next_cursor: string | null };
  };
  let cursor = "";
  for (let page = 0; page < DEEP_PAGES; page += 1) {
    cursor = (await list(`limit=100${cursor && `&cursor=${cursor}`}`)).next_cursor ?? "";
  }
  const queries = {
    "first page of 25": "limit=25",
    "first page of 100": "limit=100",
    "page 51 of 100": `limit=100&cursor=${cursor}`,
    "page by a name": "limit=25&q=Customer%20777",
    "page of ended customers": "limit=25&state=ended",
  };
  for (const [name, query] of Object.entries(queries)) {
    const { p50, p99 } = percentiles(await times(PAGES, 1, () => list(query)));
    record.add(`${name}: p50`, "ms", p50);
    record.add(`${name}: p99`, "ms", p99);
  }
}

async function measureRemoval({ db, record }: Place, shop: Shop): Promise<void> {
  const vault = { disableKey: async () => {}, shrinkCeiling: async () => {} };
  const deps = { db, secretBox, vault, clock: systemClock, log: pino({ level: "silent" }) };
  const began = performance.now();
  const finder = { forget: () => {} };
  await removeConnection({ ...deps, apiKeys: finder } as never, { ...shop, connectionId: shop.connectionId });
  record.add(`call that removes a platform with ${CUSTOMERS} customers`, "ms", performance.now() - began);
  const own = db("connections").where({ connection_id: shop.connectionId });
  while ((await own.clone().first("end_due_at"))?.end_due_at != null) await sleep(POLL_MS);
  record.add("until the last connection has ended", "s", (performance.now() - began) / 1_000);
}

async function measureOthers(
  { db, receivers, record }: Place,
  connections: TestConnection[],
  { name, part }: { name: string; part: number },
): Promise<void> {
  const transactions = PER_SECOND * LOAD_SECONDS;
  const firstNumber = part * transactions;
  const load = { db, connections, transactions, transactionsPerSecond: PER_SECOND, eventsEach: 1 };
  const committed = await runLoad({ ...load, firstNumber });
  await sleep(AFTERWARDS_MS);
  const late = [...committed].filter(([number]) => number - firstNumber >= WARM_SECONDS * PER_SECOND);
  const waits = late.flatMap(([number, at]) => {
    const arrived = receivers.arrived.get(number);
    return arrived === undefined ? [] : [arrived - at];
  });
  const { p50, p99 } = percentiles(waits);
  record.add(`${name}: p50`, "ms", p50);
  record.add(`${name}: p99`, "ms", p99);
  record.add(`${name}: missing`, "deliveries", late.length - waits.length);
}
