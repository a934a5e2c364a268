import { mkdir } from "node:fs/promises";
import { type Database, openDatabase } from "../../../src/db/database.ts";
import { createSecretBox } from "../../../src/secret_box.ts";
import { check, type Report } from "../../soak/check.ts";
import { dumpDeliveries } from "../../soak/dump.ts";
import { openLines } from "../../soak/lines.ts";
import { startReceivers } from "../../soak/programs.ts";
import type { Visitor } from "../../specification/visitor.ts";
import { until } from "../../support/process.ts";
import { createProofWorld, type ProofWorld } from "../../support/proof_world.ts";
import { described, type Tally } from "./attempts.ts";
import { type Addresses, openOwner, openShop, type Shop, sendEventsTo, startPeople } from "./people.ts";
import { checkSequence } from "./sequence.ts";
import { prove, startVerifies, type Verified } from "./verifies.ts";

/** The addresses of a running service. `receiverHost` is the address at which its pods reach this machine. */
export type Target = Addresses & { databaseUrl: string; sealingKey: string; receiverHost: string };

/** `problems` must be empty. */
export type LoadReport = {
  verified: Verified;
  verifies: Tally;
  people: Tally;
  report: Report;
  ordered: number;
  problems: string[];
};

/**
 * `perSecond` counts decisions. `proven` is the number of proofs to create beforehand, and `shops` the number
 * of shops with events.
 */
export type LoadOptions = {
  folder: string;
  perSecond: number;
  proven?: number;
  shops?: number;
  pauseMs?: number;
};

export type Load = {
  /** Runs `work`, which causes a fault, and records the fault's time. */
  fault<T>(name: string, work: () => Promise<T>): Promise<T>;
  /** Stops the load, waits until every event has arrived, and checks the results. */
  stop(): Promise<LoadReport>;
};

const WORLDS = 10;
const CREDIT_MICRO_USD = 1e12;
const SEED = 1;
/** A killed worker's lock expires after 60 s, and the retry follows up to 5 min later. */
const QUIET_MS = 420_000;

/** Creates accounts, platforms and receivers, and starts a load on them. */
export async function startLoad(target: Target, options: LoadOptions): Promise<Load> {
  const { folder, perSecond, proven = 0, shops: count = 4, pauseMs = 100 } = options;
  await mkdir(folder, { recursive: true });
  const receivers = await startReceivers({ folder, seed: SEED, host: target.receiverHost, failing: 0 });
  const database = openDatabase({
    url: target.databaseUrl,
    name: "cluster-load",
    max: 4,
    onError: () => undefined,
  });
  const [appended, faults] = [openLines(folder, "appended"), openLines(folder, "faults")];
  const owner = await openOwner(target);
  const shops: Shop[] = [];
  for (let n = 0; n < count; n += 1) shops.push(await openShop(owner, target));
  await addressEvents(database, owner, shops, receivers);
  const worlds = await openWorlds(database, target.sealingKey);
  const proofs = await prove(worlds, proven);
  const verifies = startVerifies({ apiUrl: target.apiUrl, worlds, lines: appended, perSecond }, proofs);
  const people = startPeople(owner, shops, appended, pauseMs);

  async function dump(): Promise<void> {
    const connectionIds = shops.map(({ connectionId }) => connectionId);
    await until("every event has arrived", () => isQuiet(database, connectionIds), QUIET_MS);
    await dumpDeliveries({ database, folder }, connectionIds);
    await dumpDecisions(database, folder, worlds);
  }

  return {
    async fault(name, work) {
      const from = Date.now();
      try {
        return await work();
      } finally {
        faults.write({ name, from, until: Date.now() });
      }
    },
    async stop() {
      const verified = await verifies.stop();
      await people.stop();
      await dump();
      await Promise.all([receivers.end(), appended.close(), faults.close(), database.destroy()]);
      const [report, sequence] = [check(folder, { kafka: false }), checkSequence(folder)];
      const wrong = [...verifies.tally.wrong, ...people.tally.wrong];
      return {
        verified,
        verifies: verifies.tally,
        people: people.tally,
        report,
        ordered: sequence.compared,
        problems: [...report.problems, ...sequence.problems, ...wrong],
      };
    },
  };
}

/** Sets the callback URL of the shops after their first events, which contain secrets and are never sent. */
async function addressEvents(
  database: Database,
  owner: Visitor,
  shops: readonly Shop[],
  receivers: Awaited<ReturnType<typeof startReceivers>>,
): Promise<void> {
  await until("the first events are over", () => isOutboxEmpty(database));
  for (const shop of shops) {
    receivers.add(shop);
    await sendEventsTo(receivers.url, owner, shop);
  }
}

/** Creates accounts with credit that verify proofs. */
export async function openWorlds(database: Database, sealingKey: string): Promise<ProofWorld[]> {
  const box = createSecretBox(Buffer.from(sealingKey, "base64"));
  const options = { balanceMicroUsd: CREDIT_MICRO_USD };
  const worlds = await Promise.all(
    Array.from({ length: WORLDS }, () => createProofWorld(database, box, options)),
  );
  for (const { accountId } of worlds) await bookCredit(database, accountId);
  return worlds;
}

/** Adds the posting for a test account's balance, so that the ledger is consistent. */
async function bookCredit(database: Database, accountId: string): Promise<void> {
  await database("ledger_postings").insert({
    account_id: accountId,
    posted_at: new Date(),
    posting_id: Buffer.from(accountId.replaceAll("-", "").repeat(2), "hex"),
    kind: "alpha_credit",
    debit_book: "grants",
    credit_book: "credit",
    amount_micro_usd: CREDIT_MICRO_USD,
  });
}

async function isOutboxEmpty(database: Database): Promise<boolean> {
  const { rows } = await database.raw("select count(*)::int as n from outbox");
  return rows[0].n === 0;
}

async function isQuiet(database: Database, connectionIds: string[]): Promise<boolean> {
  const { rows } = await database
    .raw(
      `select (select count(*) from outbox) + (
         select count(*) from webhook_deliveries d join webhook_endpoints e using (endpoint_id)
         where d.settled_at is null and e.connection_id = any (:connectionIds))::int as n`,
      { connectionIds },
    )
    .catch(() => ({ rows: [{ n: -1 }] }));
  return Number(rows[0].n) === 0;
}

/** Selects the decisions on the load's proofs by the proofs' hashes, which the load knows. */
async function dumpDecisions(
  database: Database,
  folder: string,
  worlds: readonly ProofWorld[],
): Promise<void> {
  const lines = openLines(folder, "history");
  const rows = await database("audit_events")
    .whereIn(
      "account_id",
      worlds.map(({ accountId }) => accountId),
    )
    .whereNotNull("decision")
    .orderBy(["account_id", "occurred_at", "event_id"])
    .select("account_id", database.raw("receipt::json ->> 'bundle_hash' as hash"));
  for (const { account_id: accountId, hash } of rows as unknown as { account_id: string; hash: string }[]) {
    lines.write({ accountId, entry: JSON.stringify({ event_id: hash }) });
  }
  await lines.close();
}

export function linesOf({ verified, verifies, people, report, ordered }: LoadReport): string[] {
  const { allowed, p50, p99, slowest, perSecond } = verified;
  return [
    `${allowed} allowed, ${perSecond} a second, p50 ${p50} ms, p99 ${p99} ms, slowest ${slowest} ms; ${described(verifies)}`,
    `${report.events} events of people: ${described(people)}; ${report.requests} requests, ` +
      `${report.lost} lost, ${report.invented} invented, ${report.extraRequests} came again, ${ordered} shops in order`,
  ];
}
