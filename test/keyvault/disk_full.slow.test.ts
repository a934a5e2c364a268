import { execFileSync } from "node:child_process";
import { chownSync, mkdtempSync, rmSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterEach, beforeEach, expect, test } from "vitest";
import { initialize } from "../../keyvault/init.ts";
import { type RunningPostgres, startPostgres } from "../../src/dev/postgres/postgres.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { type HybridPublicKey, type HybridSignature, verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import { runPart } from "../support/run_parts.ts";
import { createHome, SILENT, startVault, type TestVault } from "./fixture.ts";
import type { Answer } from "./http/caller_support.ts";

/* The tests need the right to mount, and Postgres on this machine. */
const mayMount = process.platform === "linux" && process.getuid?.() === 0;
if (!mayMount) console.warn("SKIPPED: filling a disk for real needs Linux and root");

const SEGMENT_BYTES = 16_777_216;

let disk: string;

beforeEach(() => {
  disk = mkdtempSync(join(tmpdir(), "keyvault-disk-"));
});
afterEach(() => {
  if (mayMount) execFileSync("umount", ["--lazy", disk]);
  rmSync(disk, { recursive: true });
});

const mount = (options: string) => execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", disk]);

/** Fills the disk. Returns a file whose removal frees space again. */
function fill(): string {
  const filler = join(disk, "filler");
  const { bavail, bsize } = statfsSync(disk);
  writeFileSync(filler, Buffer.alloc(bavail * bsize));
  return filler;
}

async function asSuperuser(...statements: string[]): Promise<pg.QueryResult[]> {
  const client = new pg.Client({ connectionString: runPart("postgresUrl") });
  await client.connect();
  const results: pg.QueryResult[] = [];
  try {
    for (const statement of statements) results.push(await client.query(statement));
    return results;
  } finally {
    await client.end();
  }
}

/** Returns the account that runs Postgres, which is the account of an open connection's process. */
async function postgresUser(): Promise<{ uid: number; gid: number }> {
  const client = new pg.Client({ connectionString: runPart("postgresUrl") });
  await client.connect();
  try {
    const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
    return statSync(`/proc/${rows[0]?.pid}`);
  } finally {
    await client.end();
  }
}

test.skipIf(!mayMount)(
  "a vault whose audit is on a full disk signs nothing until the disk has space again",
  async () => {
    const vault = await startVault();
    const { key_id } = await vault.makeAgent("acc-1");
    const owner = new URL(vault.home.config.migrationDatabaseUrl).username;
    const space = `small_${process.pid}`;
    mount("size=2m");
    const { uid, gid } = await postgresUser();
    chownSync(disk, uid, gid);
    await asSuperuser(
      `create TABLESPACE ${space} LOCATION '${disk}'`,
      `grant create on TABLESPACE ${space} to ${owner}`,
    );
    try {
      await vault.home.sql(`alter table audit set TABLESPACE ${space}`);
      expect((await vault.sign(key_id)).status).toBe(200);
      const filler = fill();
      let refused: Answer | undefined;
      for (let tries = 0; tries < 200 && refused === undefined; tries += 1) {
        const answer = await vault.sign(key_id);
        if (answer.status !== 200) refused = answer;
      }
      expect(refused).toMatchObject({
        status: 503,
        body: { error: { code: "audit_unavailable", status: 503 } },
      });
      expect(Object.keys(refused?.body ?? {})).toEqual(["error"]);
      const seq = vault.head();
      expect((await vault.sign(key_id)).status).toBe(503);
      expect(vault.head()).toBe(seq);
      rmSync(filler);
      await expect.poll(async () => (await vault.sign(key_id)).status, { timeout: 10_000 }).toBe(200);
      expect((await vault.verifyAudit()).intact).toBe(true);
    } finally {
      await asSuperuser(`revoke all on TABLESPACE ${space} from ${owner}`);
      await vault.close();
      await asSuperuser(`drop TABLESPACE ${space}`);
    }
  },
  120_000,
);

/**
 * Starts a Postgres whose files are all on the small disk. It stops when its write-ahead log has no space, as
 * in production.
 */
const startOnDisk = (port?: number): Promise<RunningPostgres> =>
  startPostgres({
    dataDir: join(disk, "postgres"),
    settings: { shared_buffers: "16MB", wal_recycle: "off" },
    ...(port !== undefined && { port }),
  });

async function useUpTheLog(url: string): Promise<void> {
  for (let tries = 0; tries < 20; tries += 1) {
    const client = new pg.Client({ connectionString: url });
    client.on("error", () => {});
    try {
      await client.connect();
      await client.query("select pg_logical_emit_message(false, 'fill', repeat('x', 4000000))");
      await client.query("select pg_switch_wal()");
      await client.end();
    } catch {
      return;
    }
  }
}

type Signed = { body: Answer["body"]; challenge: ReturnType<TestVault["challenge"]> };

test.skipIf(!mayMount)(
  "while the write-ahead log has no space, the vault signs nothing, and later its chain contains every released signature",
  async () => {
    mount("size=160m,mode=755");
    let postgres = await startOnDisk();
    const home = await createHome({ made: "empty" });
    const url = postgres.superuserUrl("postgres");
    home.config = { ...home.config, databaseUrl: url, migrationDatabaseUrl: url };
    await initialize(home.config, { now: () => new Date() }, SILENT);
    const vault = await startVault(home);
    try {
      const { key_id } = await vault.makeAgent("acc-1");
      expect((await vault.sign(key_id)).status).toBe(200);
      const filler = fill();
      const signed: Signed[] = [];
      const unavailable: Answer[] = [];
      let filling = true;
      const load = Array.from({ length: 4 }, async () => {
        while (filling) {
          const challenge = vault.challenge();
          const answer = await vault.post(`/v1/keys/${key_id}/sign/challenge`, challenge);
          if (answer.status === 200) {
            signed.push({ body: answer.body, challenge });
          } else {
            unavailable.push(answer);
          }
        }
      });
      try {
        await useUpTheLog(url);
        await expect.poll(() => unavailable.length, { timeout: 30_000 }).toBeGreaterThan(4);
      } finally {
        filling = false;
        await Promise.allSettled(load);
      }
      await Promise.all(load);
      for (const { status, body } of unavailable) {
        expect(status).toBe(503);
        expect(body.error?.code).toMatch(/^(audit_unavailable|unavailable)$/);
        expect(Object.keys(body)).toEqual(["error"]);
      }
      expect(unavailable.some(({ body }) => body.error?.code === "audit_unavailable")).toBe(true);
      for (const { body, challenge } of signed) {
        const { tenant: _, ...binding } = challenge;
        const key = body.agent_pub_key as HybridPublicKey;
        const signature = body.challenge_sig as HybridSignature;
        expect(await verifyHybrid(key, challengeSignBytes(binding), signature)).toBe(true);
      }
      const left = statfsSync(disk);
      expect(left.bavail * left.bsize).toBeLessThan(SEGMENT_BYTES);
      const { port } = postgres;
      await postgres.stop();
      rmSync(filler);
      postgres = await startOnDisk(port);
      await expect.poll(async () => (await vault.sign(key_id)).status, { timeout: 60_000 }).toBe(200);
      expect((await vault.verifyAudit()).intact).toBe(true);
      const [row] = await vault.vault
        .database("audit")
        .where({ statement: "challenge", outcome: "granted" })
        .count<{ count: number }[]>("* as count");
      expect(row?.count).toBeGreaterThanOrEqual(signed.length + 2);
    } finally {
      await vault.close();
      await postgres.stop();
    }
  },
  180_000,
);
