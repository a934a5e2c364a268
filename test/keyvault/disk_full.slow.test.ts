import { execFileSync } from "node:child_process";
import { chownSync, mkdtempSync, rmSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { unixSeconds } from "../../keyvault/clock.ts";
import { runPart } from "../support/run_parts.ts";
import { readIdentity, startVault, type TestVault } from "./fixture.ts";
import { type Answer, call } from "./http/caller_support.ts";

/*
 * The audit table is moved to a tablespace on a small file system of its own, which is then filled. That
 * takes the right to mount, and Postgres on this machine.
 */
const mayMount = process.platform === "linux" && process.getuid?.() === 0;
if (!mayMount) console.warn("SKIPPED: filling a disk for real needs Linux and root");

let vault: TestVault;
let agent: string;
let disk: string;
const space = `small_${process.pid}`;

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

/** The account of the running Postgres, read off the process of a connection while it is open. */
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

beforeAll(async () => {
  if (!mayMount) return;
  vault = await startVault();
  agent = (await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "agent" })).key_id;
  disk = mkdtempSync(join(tmpdir(), "keyvault-disk-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", disk]);
  const { uid, gid } = await postgresUser();
  chownSync(disk, uid, gid);
  const owner = new URL(vault.home.config.migrationDatabaseUrl).username;
  await asSuperuser(
    `create TABLESPACE ${space} LOCATION '${disk}'`,
    `grant create on TABLESPACE ${space} to ${owner}`,
  );
  await vault.home.sql(`alter table audit set TABLESPACE ${space}`);
}, 120_000);
afterAll(async () => {
  if (!mayMount) return;
  const owner = new URL(vault.home.config.migrationDatabaseUrl).username;
  await asSuperuser(`revoke all on TABLESPACE ${space} from ${owner}`);
  await vault.close();
  await asSuperuser(`drop TABLESPACE ${space}`);
  execFileSync("umount", [disk]);
  rmSync(disk, { recursive: true });
});

const sign = (): Promise<Answer> =>
  call(`${vault.url}/v1/keys/${agent}/sign/challenge`, readIdentity(vault.home, "api"), {
    method: "POST",
    body: {
      tenant: "acc-1",
      challenge: Buffer.alloc(32, 1).toString("base64"),
      challenge_at: unixSeconds(vault.clock.now()),
    },
  });

test.skipIf(!mayMount)(
  "on a full disk nothing is signed, and it signs again when there is room",
  async () => {
    expect((await sign()).status).toBe(200);
    const filler = join(disk, "filler");
    const { bavail, bsize } = statfsSync(disk);
    writeFileSync(filler, Buffer.alloc(bavail * bsize));
    let refused: Answer | undefined;
    for (let tries = 0; tries < 200 && refused === undefined; tries += 1) {
      const answer = await sign();
      if (answer.status !== 200) refused = answer;
    }
    expect(refused).toMatchObject({
      status: 503,
      body: { error: { code: "audit_unavailable", status: 503 } },
    });
    expect(Object.keys(refused?.body ?? {})).toEqual(["error"]);
    const { seq } = vault.vault.journal.head();
    expect((await sign()).status).toBe(503);
    expect(vault.vault.journal.head().seq).toBe(seq);
    rmSync(filler);
    await expect.poll(async () => (await sign()).status, { timeout: 10_000 }).toBe(200);
    expect((await vault.verifyAudit()).intact).toBe(true);
  },
  120_000,
);
