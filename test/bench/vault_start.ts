import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { type AuditEntry, createRecord, recordBytes } from "../../keyvault/audit/record.ts";
import { appendRecords } from "../../keyvault/audit/writer_connection.ts";
import { loadConfig } from "../../keyvault/config.ts";
import type { AuditRow } from "../../keyvault/db/rows.ts";
import { createLog } from "../../keyvault/log.ts";
import { openToken } from "../../keyvault/token/client.ts";
import { tokenSettings } from "../../keyvault/token/install.ts";
import { startPostgres } from "../../src/dev/postgres/postgres.ts";
import { report } from "./results/tables.ts";
import { makeBenchVault, serveBenchVault, stopBenchVault } from "./vault/place.ts";

/**
 * Measures how long a vault needs from its process's start until it listens. A vault with a long audit starts
 * from a snapshot of its register, and from the first record. These starts alternate with starts of a vault
 * with a short audit. Run `RECORDS=1000000 node test/bench/vault_start.ts`.
 */
const RECORDS = Number(process.env.RECORDS ?? 100_000);
const ROUNDS = 3;
const AT_ONCE = 5_000;
const ONE_KEY_IN = 10;
const SHORT = "some records";
const API = { role: "api", name: "api" } as const;

type Place = Awaited<ReturnType<typeof makeBenchVault>>;

const dir = await mkdtemp(join(tmpdir(), "keyvault-bench-"));
const postgres = await startPostgres({ dataDir: join(dir, "postgres") });
try {
  const short = await makeBenchVault(postgres, dir, "short");
  const long = await makeBenchVault(postgres, dir, "long");
  await writeRecords(long);
  const seconds: Record<"short" | "first" | "snapshot", number[]> = { short: [], first: [], snapshot: [] };
  for (let round = 0; round < ROUNDS; round += 1) {
    seconds.short.push(await startAndStop(short));
    await withClient(long.url, (client) => client.query("truncate audit_register"));
    seconds.first.push(await startAndStop(long));
    seconds.snapshot.push(await startAndStop(long));
  }
  const many = `${RECORDS} records`;
  report({
    figures: [
      { name: SHORT, unit: "s", values: seconds.short },
      { name: `${many}, snapshot`, unit: "s", values: seconds.snapshot },
      { name: `${many}, from the first`, unit: "s", values: seconds.first },
    ],
    ratios: ["snapshot", "from the first"].map((way) => ({
      name: `${many}, ${way} / ${SHORT}`,
      over: `${many}, ${way}`,
      under: SHORT,
    })),
  });
} finally {
  await postgres.stop();
  await rm(dir, { recursive: true, force: true });
}

/** Returns the seconds from the process's start until it listened. The stop writes a snapshot. */
async function startAndStop({ environment }: Place): Promise<number> {
  const begun = performance.now();
  const { vault } = await serveBenchVault(environment);
  const taken = (performance.now() - begun) / 1000;
  await stopBenchVault(vault);
  return taken;
}

/** Appends records to a vault's audit chain. The vault's own token computes their MACs. */
async function writeRecords({ environment, url }: Place): Promise<void> {
  const token = await openToken(await tokenSettings(loadConfig(environment).token), createLog("silent"));
  await withClient(url, async (client) => {
    const { rows } = await client.query<AuditRow>("select * from audit order by seq desc limit 1");
    let { seq, mac } = rows[0] ?? { seq: 0, mac: Buffer.alloc(32) };
    seq = Number(seq);
    while (seq < RECORDS) {
      const records = Array.from({ length: Math.min(AT_ONCE, RECORDS - seq) }, () =>
        createRecord(entryOf(++seq), seq, new Date()),
      );
      const macs = await token.chain(mac, records.map(recordBytes));
      const coded = records.map((record, index) => ({ ...record, mac: Buffer.from(macs[index] ?? mac) }));
      await appendRecords(client, coded);
      mac = coded.at(-1)?.mac ?? mac;
    }
    await client.query("vacuum analyze audit");
  });
  await token.close();
}

function entryOf(seq: number): AuditEntry {
  const about = { caller: API, keyId: randomBytes(16).toString("hex"), outcome: "granted" } as const;
  const [digest, tenant] = [randomBytes(32), `acc-${seq % 1_000}`];
  if (seq % ONE_KEY_IN > 0) return { ...about, statement: "challenge", digest, detail: { tenant } };
  const detail = { tenant, state: randomBytes(32).toString("base64") };
  return { ...about, purpose: "agent", statement: "key_create", digest, detail };
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
