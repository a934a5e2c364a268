import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD } from "../../src/accounts/ledger/amounts.ts";
import { startPostgres } from "../../src/dev/postgres/postgres.ts";
import { processBirth } from "../../src/dev/process/folder_lock.mjs";
import { customerSteps } from "../../src/dev/tour/customer_steps.ts";
import { tourSteps } from "../../src/dev/tour/steps.ts";
import { type DevRun, startDev, untilLeft } from "../support/dev_stack.ts";

/**
 * Each round kills one part of a running stack at a random moment of the tour, and starts the stack again on
 * the same data. `CRASH_SEED` repeats a run. `CRASH_ROUNDS` is the number of rounds.
 */
const SEED = Number(process.env.CRASH_SEED ?? randomInt(2 ** 31));
const ROUNDS = Number(process.env.CRASH_ROUNDS ?? 1);
const VICTIMS = ["api", "keyvault", "token child", "worker", "postgres", "operator", "stack"] as const;
const PARTS_STARTED = ["keyvault", "api", "worker"];
const MOMENTS = [...PARTS_STARTED, ...[...tourSteps, ...customerSteps].map((step) => step.name)];
/** Milliseconds. A step takes 5 to 400 ms, so the kill happens during one of the next two steps. */
const JITTER_MS = 250;
const RUN_TIMEOUT_MS = 240_000;

const vault = fileURLToPath(new URL("../../keyvault/main.ts", import.meta.url));
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-crash-"));
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

/** A random generator with a seed (mulberry32), so that a run can be repeated. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

type Tour = DevRun & {
  steps(): string[];
  /** Never resolves if the tour ends before this step. */
  reached(step: string): Promise<void>;
};

function startTour(): Tour {
  const run = startDev(folder, ["--once", "--json"]);
  const { child, said } = run;
  const steps = () =>
    [...said.out.matchAll(/^\{"step":"([^"]+)","ok":true/gm)].map((match) => match[1] as string);
  return {
    ...run,
    steps,
    async reached(step) {
      while (!steps().includes(step) && child.exitCode === null) await sleep(5);
    },
  };
}

async function finished(tour: Tour): Promise<number | null> {
  const timeout = AbortSignal.timeout(RUN_TIMEOUT_MS);
  const late = once(timeout, "abort").then(() => {
    tour.child.kill("SIGKILL");
    throw new Error(`the tour did not end:\n${tour.said.out}${tour.said.err}`);
  });
  return Promise.race([tour.exit, late]);
}

type Parts = Record<string, { pid: number; birth: string }>;

async function partsOf(): Promise<Parts> {
  const text = await readFile(join(folder, "run.json"), "utf8").catch(() => "{}");
  return (JSON.parse(text) as { parts?: Parts }).parts ?? {};
}

async function pidOf(victim: (typeof VICTIMS)[number], tour: Tour): Promise<number | undefined> {
  if (victim === "stack") return tour.child.pid;
  const parts = await partsOf();
  if (victim !== "token child") return parts[victim]?.pid;
  const vaultPid = parts.keyvault?.pid;
  const children = await readFile(`/proc/${vaultPid}/task/${vaultPid}/children`, "utf8").catch(() => "");
  const [pid] = children.trim().split(/\s+/);
  return pid ? Number(pid) : undefined;
}

test(`a stack loses nothing that it confirmed, whichever part is killed and whenever (CRASH_SEED=${SEED})`, {
  timeout: 20 * 60_000,
}, async () => {
  console.log(`CRASH_SEED=${SEED} CRASH_ROUNDS=${ROUNDS}`);
  const random = createRandom(SEED);
  expect(await finished(startTour())).toBe(0);
  for (let round = 0; round < ROUNDS; round += 1) {
    const victim = VICTIMS[Math.floor(random() * VICTIMS.length)] as (typeof VICTIMS)[number];
    const moment = MOMENTS[Math.floor(random() * MOMENTS.length)] as string;
    const jitter = Math.floor(random() * JITTER_MS);
    const tour = startTour();
    await Promise.race([tour.reached(moment).then(() => sleep(jitter)), tour.exit]);
    const pid = tour.child.exitCode === null ? await pidOf(victim, tour) : undefined;
    if (pid !== undefined && processBirth(pid) !== undefined) process.kill(pid, "SIGKILL");
    const code = await finished(tour);
    const last = tour.steps().at(-1) ?? "nothing";
    console.log(
      `round ${round}: ${pid === undefined ? "nothing" : victim} killed ${jitter} ms after ${moment}, last step ${last}, exit ${code}`,
    );
    await untilLeft(folder);
    await checkOffline();
  }
  const recovery = startTour();
  expect(await finished(recovery), recovery.said.out + recovery.said.err).toBe(0);
  await untilLeft(folder);
  await checkOffline();
  await checkVaultAudit();
});

type Fact = { fact: string; wrong: number };

/**
 * Each query counts the rows that contradict the fact. A worker that dies leaves the outbox row of created
 * deliveries to its successor, so the queries count events by their ids.
 */
const FACTS: Record<string, string> = {
  "a decision has its spent challenge": `
    select count(*)::int from ledger_postings p where kind = 'verification'
    and not exists (select from spent_challenges s where s.challenge = p.posting_id)`,
  "decisions, spent challenges and audit rows are as many": `
    select abs((select count(*) from spent_challenges) - (select count(*) from audit_events
      where decision is not null and verifier_account_id is null))::int`,
  "a decision at a customer's connection is in both histories": `
    select abs((select count(*) from audit_events where decision is not null and verifier_account_id is not null)
             - (select count(*) from audit_events e join connections c using (connection_id)
                where decision is not null and verifier_account_id is null and c.product_id is not null))::int`,
  "allows and denials are charged once each": `
    select abs((select count(*) from ledger_postings where kind = 'verification')
             - (select count(*) from audit_events
                where decision in ('allow', 'deny') and verifier_account_id is null))::int`,
  "a balance is what its postings leave": `
    select count(*)::int from account_credit b where balance_micro_usd <> (
      select coalesce(sum(case kind when 'alpha_credit' then amount_micro_usd else -amount_micro_usd end), 0)
      from ledger_postings p where p.account_id = b.account_id)`,
  "every posting has the price": `
    select count(*)::int from ledger_postings where kind = 'verification' and amount_micro_usd <> ${VERIFICATION_PRICE_MICRO_USD}`,
  "an approved request has its certificate, and only such": `
    select count(*)::int from delegation_requests r full join certificates c using (request_id)
    where (r.status = 'approved') is distinct from (c.cert_id is not null)`,
  "every approval has one event": `
    select count(*)::int from certificates c where 1 <> (
      select count(distinct e.event_id) from (
        select event_id, payload as text from outbox where type = 'delegation.approved'
        union select event_id, body from webhook_deliveries where event_type = 'delegation.approved') e
      where e.text like '%' || c.cert_id || '%')`,
  "every revocation has one event": `
    select count(*)::int from certificates c where (case status when 'revoked' then 1 else 0 end) <> (
      select count(distinct e.event_id) from (
        select event_id, payload as text from outbox where type = 'delegation.revoked'
        union select event_id, body from webhook_deliveries where event_type = 'delegation.revoked') e
      where e.text like '%' || c.cert_id || '%')`,
  "every delivery is pending, being sent or delivered": `
    select count(*)::int from webhook_deliveries where state not in ('pending', 'sending', 'delivered')`,
  "one platform, one own connection, and one agent there": `
    select ((select count(*) from platforms) + (select count(*) from connections where product_id is null)
          + (select count(*) from agents join connections using (connection_id) where product_id is null) - 3)::int`,
  "one customer's connection at a time": `
    select greatest(0, count(*) - 1)::int from connections where product_id is not null and removed_at is null`,
};

async function checkOffline(): Promise<void> {
  const postgres = await startPostgres({ dataDir: join(folder, "postgres", "data") });
  try {
    const client = new Client({ connectionString: postgres.superuserUrl("deputize") });
    await client.connect();
    try {
      const broken: Fact[] = [];
      for (const [fact, sql] of Object.entries(FACTS)) {
        const { rows } = await client.query<Record<string, number>>(sql);
        const wrong = Number(Object.values(rows[0] ?? {})[0]);
        if (wrong !== 0) broken.push({ fact, wrong });
      }
      expect(broken).toEqual([]);
      const { rows } = await client.query<{ delivery_id: string }>(
        "select delivery_id from webhook_deliveries where state = 'delivered'",
      );
      const received = await readFile(join(folder, "received.jsonl"), "utf8");
      expect(rows.filter(({ delivery_id }) => !received.includes(delivery_id))).toEqual([]);
    } finally {
      await client.end();
    }
  } finally {
    await postgres.stop();
  }
}

async function checkVaultAudit(): Promise<void> {
  const postgres = await startPostgres({ dataDir: join(folder, "postgres", "data") });
  try {
    const child = spawn(process.execPath, [vault, "audit", "verify"], {
      env: {
        PATH: process.env.PATH,
        KEYVAULT_DATA_DIR: join(folder, "keyvault"),
        KEYVAULT_DATABASE_URL: postgres.superuserUrl("keyvault"),
      },
      stdio: "inherit",
    });
    const [code] = await once(child, "exit");
    expect(code).toBe(0);
  } finally {
    await postgres.stop();
  }
}
