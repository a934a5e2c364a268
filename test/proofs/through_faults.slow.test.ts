import { randomInt, randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { afterEach, expect, test } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD } from "../../src/accounts/ledger/amounts.ts";
import { openDatabase, openPool } from "../../src/db/database.ts";
import { freePort } from "../../src/dev/process/ports.ts";
import { maintainPartitions } from "../../src/proofs/decide/partitions.ts";
import { createSecretBox } from "../../src/secret_box.ts";
import { type FragilePostgres, startFragilePostgres } from "../events/support/postgres.ts";
import { killHard } from "../support/process.ts";
import { createProofWorld, type ProofWorld } from "../support/proof_world.ts";
import { type RoleProcess, startRole } from "../support/role_process.ts";
import { vaultFiles } from "../support/vault_files.ts";

/** Number of proofs. Meanwhile, Postgres crashes four times, and two APIs are each killed twice. */
const DECISIONS = Number(process.env.FAULT_DECISIONS ?? 1_200);
const FAULTS = 4;
const LANES = 32;
const WORLDS = 8;
/** One in this many proofs is sent to both processes at the same time. */
const TWICE = 10;
const CREDIT_MICRO_USD = 1e12;
const RETRY_MS = 100;
/** A killed API restarts within seconds, and a proof is valid for five minutes. */
const MOST_ATTEMPTS = 600;

let folder: string;
let postgres: FragilePostgres;
let worlds: ProofWorld[];
let environments: Record<string, string>[];
let apis: RoleProcess[];

async function startAll(isPooled: boolean): Promise<void> {
  folder = await mkdtemp(join(tmpdir(), "deputize-faults-"));
  postgres = await startFragilePostgres({ isPooled });
  const sealingKey = Buffer.from(randomUUID().replaceAll("-", ""));
  const settings = { url: postgres.url, name: "test", onError: () => {} };
  const [db, pool] = [openDatabase(settings), openPool(settings)];
  await maintainPartitions(pool, new Date());
  const options = { balanceMicroUsd: CREDIT_MICRO_USD };
  worlds = await Promise.all(
    Array.from({ length: WORLDS }, () => createProofWorld(db, createSecretBox(sealingKey), options)),
  );
  // Read the challenge keys now, so that only the APIs need the database later.
  await Promise.all(worlds.map((world) => world.prove()));
  await pool.end();
  await db.destroy();
  environments = await Promise.all([0, 1].map(() => environment(sealingKey)));
  apis = environments.map((env) => startRole("api", env));
  await Promise.all(apis.map((api) => api.ready()));
}

afterEach(async () => {
  await Promise.all((apis ?? []).map(({ child }) => killHard(child)));
  await postgres?.remove();
  await rm(folder, { recursive: true, force: true });
});

async function environment(sealingKey: Buffer): Promise<Record<string, string>> {
  const port = await freePort();
  return {
    PATH: process.env.PATH ?? "",
    ...(postgres.urls as Record<string, string>),
    SEALING_KEY: sealingKey.toString("base64"),
    DEVELOPMENT: "true",
    PORT: String(port),
    BASE_URL: `http://127.0.0.1:${port}`,
    VAULT_URL: "https://127.0.0.1:1",
    ...(await vaultFiles()),
  };
}

type Outcome = { receiptId: string; receiptHash: string; decision: string } | { refused: string } | "unknown";

async function verify(api: number, { apiKey }: ProofWorld, body: string): Promise<Outcome> {
  try {
    const response = await fetch(`http://127.0.0.1:${environments[api]?.PORT}/v1/service/verify`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-service-api-key": apiKey },
      body,
      signal: AbortSignal.timeout(20_000),
    });
    const answer = (await response.json()) as {
      decision: string;
      receipt_hash: string;
      receipt: { receipt_id: string };
      error: { code: string };
    };
    if (response.status >= 500) return "unknown";
    if (response.status !== 200) return { refused: answer.error.code };
    const { decision, receipt, receipt_hash } = answer;
    return { receiptId: receipt.receipt_id, receiptHash: receipt_hash, decision };
  } catch {
    return "unknown";
  }
}

/** Outcomes by challenge. `lost`: proofs that were decided, but whose answer was lost. */
type Seen = { decided: Map<string, Exclude<Outcome, "unknown" | { refused: string }>>; lost: Set<string> };

async function showUntilKnown(world: ProofWorld, isTwice: boolean, seen: Seen): Promise<void> {
  const bundle = await world.prove();
  const body = JSON.stringify({ proof_bundle: bundle, required_scope: "data:read" });
  let mayBeDecided = false;
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt += 1) {
    const targets = isTwice ? [0, 1] : [randomInt(2)];
    const outcomes = await Promise.all(targets.map((api) => verify(api, world, body)));
    const decisions = outcomes.filter((outcome) => typeof outcome === "object" && "decision" in outcome);
    expect(decisions.length, "a challenge is spent once").toBeLessThanOrEqual(1);
    const [decision] = decisions;
    if (decision !== undefined && "decision" in decision) {
      seen.decided.set(bundle.challenge, decision);
      return;
    }
    const refusals = outcomes.flatMap((outcome) =>
      typeof outcome === "object" && "refused" in outcome ? [outcome.refused] : [],
    );
    mayBeDecided ||= outcomes.includes("unknown");
    if (refusals.length > 0) {
      expect([...new Set(refusals)], "a proof is refused only when it may have been decided").toEqual(
        mayBeDecided ? ["invalid_challenge"] : [],
      );
      seen.lost.add(bundle.challenge);
      return;
    }
    await sleep(RETRY_MS);
  }
  throw new Error("the outcome of a proof is still unknown");
}

/** Decides on `count` proofs. Calls `after` once, at a random time during the decisions. */
async function decide(count: number, seen: Seen, after: () => Promise<void>): Promise<void> {
  let left = count;
  const turn = randomInt(1, Math.max(2, Math.floor(count * 0.8)));
  let fault: Promise<void> | undefined;
  await Promise.all(
    Array.from({ length: LANES }, async () => {
      while (left > 0) {
        left -= 1;
        if (left < turn) fault ??= after();
        await showUntilKnown(worlds[left % WORLDS] as ProofWorld, left % TWICE === 0, seen);
      }
    }),
  );
  await fault;
}

async function killApi(number: number): Promise<void> {
  const victim = apis[number] as RoleProcess;
  await killHard(victim.child);
  apis[number] = startRole("api", environments[number] as Record<string, string>);
  await apis[number].ready();
}

test.each([
  ["", false],
  [", through a pooler that is killed too", true],
])(
  `each of ${DECISIONS} answered decisions stays stored, charged once and final, whatever process is killed%s`,
  {
    timeout: 30 * 60_000,
  },
  async (_, isPooled) => {
    await startAll(isPooled);
    const seen: Seen = { decided: new Map(), lost: new Set() };
    for (let fault = 0; fault < FAULTS; fault += 1) {
      await decide(Math.ceil(DECISIONS / FAULTS / 2), seen, async () => {
        await Promise.all([postgres.crash(randomInt(1_000)), postgres.crashPooler(randomInt(1_000))]);
      });
      await decide(Math.ceil(DECISIONS / FAULTS / 2), seen, () => killApi(fault % 2));
    }
    console.log(`${seen.decided.size} decided and answered, ${seen.lost.size} decided, their answers lost`);
    expect(new Set([...seen.decided.values()].map(({ decision }) => decision))).toEqual(new Set(["allow"]));
    const client = new Client({ connectionString: postgres.url });
    await client.connect();
    try {
      await checkKept(client, seen);
    } finally {
      await client.end();
    }
  },
);

type Row = { n: string };

async function count(client: Client, sql: string, values: unknown[] = []): Promise<number> {
  const { rows } = await client.query<Row>(`select count(*) as n ${sql}`, values);
  return Number(rows[0]?.n);
}

async function checkKept(client: Client, { decided, lost }: Seen): Promise<void> {
  const decisions = decided.size + lost.size;
  await client.query(
    "create temp table seen (challenge bytea, receipt_id uuid, receipt_hash text, decision text)",
  );
  await client.query(
    "insert into seen select * from unnest($1::bytea[], $2::uuid[], $3::text[], $4::text[])",
    [
      [...decided.keys()].map((challenge) => Buffer.from(challenge, "base64")),
      [...decided.values()].map(({ receiptId }) => receiptId),
      [...decided.values()].map(({ receiptHash }) => receiptHash),
      [...decided.values()].map(({ decision }) => decision),
    ],
  );
  const kept = {
    "answered decisions in the history, with their receipts": await count(
      client,
      `from seen join audit_events e on e.event_id = receipt_id and e.decision = seen.decision
       where 'sha256:' || encode(e.receipt_hash, 'hex') = seen.receipt_hash
         and sha256(convert_to(e.receipt, 'UTF8')) = e.receipt_hash`,
    ),
    "answered decisions that are paid": await count(
      client,
      "from seen join ledger_postings p on p.posting_id = seen.challenge and p.kind = 'verification'",
    ),
    "lost answers whose decisions are paid": await count(
      client,
      "from ledger_postings where kind = 'verification' and posting_id = any($1::bytea[])",
      [[...lost].map((challenge) => Buffer.from(challenge, "base64"))],
    ),
    "decisions in the history": await count(client, "from audit_events where decision is not null"),
    payments: await count(client, "from ledger_postings where kind = 'verification'"),
    "challenges spent": await count(client, "from (select distinct challenge from spent_challenges) as one"),
    "rows of spent challenges": await count(client, "from spent_challenges"),
    "micro-USD paid": Number(
      (
        await client.query<Row>("select sum($1::bigint - balance_micro_usd) as n from account_credit", [
          CREDIT_MICRO_USD,
        ])
      ).rows[0]?.n,
    ),
  };
  expect(kept).toEqual({
    "answered decisions in the history, with their receipts": decided.size,
    "answered decisions that are paid": decided.size,
    "lost answers whose decisions are paid": lost.size,
    "decisions in the history": decisions,
    payments: decisions,
    "challenges spent": decisions,
    "rows of spent challenges": decisions,
    "micro-USD paid": decisions * VERIFICATION_PRICE_MICRO_USD,
  });
}
