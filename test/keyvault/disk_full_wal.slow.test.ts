import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { unixSeconds } from "../../keyvault/clock.ts";
import { initialise } from "../../keyvault/init.ts";
import { type RunningPostgres, startPostgres } from "../../src/dev/postgres/postgres.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { type HybridPublicKey, type HybridSignature, verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import { createHome, readIdentity, SILENT, startVault, type TestVault } from "./fixture.ts";
import { type Answer, call } from "./http/caller_support.ts";

/*
 * A Postgres of its own, all of it on a small file system, which is filled until its write-ahead log finds no
 * room. It stops then, as it does on a real disk. That takes the right to mount.
 */
const mayMount = process.platform === "linux" && process.getuid?.() === 0;
if (!mayMount) console.warn("SKIPPED: filling a disk for real needs Linux and root");

const SEGMENT_BYTES = 16_777_216;

let disk: string;
let postgres: RunningPostgres;
let vault: TestVault;
let agent: string;

const start = (port?: number) =>
  startPostgres({
    dataDir: join(disk, "postgres"),
    settings: { shared_buffers: "16MB", wal_recycle: "off" },
    ...(port !== undefined && { port }),
  });

beforeAll(async () => {
  if (!mayMount) return;
  disk = mkdtempSync(join(tmpdir(), "keyvault-wal-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=160m,mode=755", "tmpfs", disk]);
  postgres = await start();
  const home = await createHome({ made: "empty" });
  const url = postgres.superuserUrl("postgres");
  home.config = { ...home.config, databaseUrl: url, migrationDatabaseUrl: url };
  await initialise(home.config, { now: () => new Date() }, SILENT);
  vault = await startVault(home);
  agent = (await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "agent" })).key_id;
}, 180_000);
afterAll(async () => {
  if (!mayMount) return;
  await vault?.close();
  await postgres?.stop();
  execFileSync("umount", ["--lazy", disk]);
  rmSync(disk, { recursive: true });
});

const binding = () => ({
  challenge: Buffer.alloc(32, 1).toString("base64"),
  challenge_at: unixSeconds(vault.clock.now()),
});
const sign = (body = binding()): Promise<Answer> =>
  call(`${vault.url}/v1/keys/${agent}/sign/challenge`, readIdentity(vault.home, "api"), {
    method: "POST",
    body: { tenant: "acc-1", ...body },
  });

/** Asks for a fresh segment of the log, again and again, until the server is gone. */
async function useUpTheLog(): Promise<void> {
  for (let tries = 0; tries < 20; tries += 1) {
    const client = new pg.Client({ connectionString: postgres.superuserUrl("postgres") });
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

test.skipIf(!mayMount)(
  "when the write-ahead log finds no room nothing is signed; afterwards the chain holds every signature that left",
  async () => {
    expect((await sign()).status).toBe(200);
    const filler = join(disk, "filler");
    const { bavail, bsize } = statfsSync(disk);
    writeFileSync(filler, Buffer.alloc(bavail * bsize));
    const signed: { body: Answer["body"]; at: ReturnType<typeof binding> }[] = [];
    const unavailable: Answer[] = [];
    let filling = true;
    const load = Array.from({ length: 4 }, async () => {
      while (filling) {
        const at = binding();
        const answer = await sign(at);
        if (answer.status === 200) {
          signed.push({ body: answer.body, at });
        } else {
          unavailable.push(answer);
        }
      }
    });
    try {
      await useUpTheLog();
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
    for (const { body, at } of signed) {
      expect(
        await verifyHybrid(
          body.agent_pub_key as HybridPublicKey,
          challengeSignBytes(at),
          body.challenge_sig as HybridSignature,
        ),
      ).toBe(true);
    }
    const left = statfsSync(disk);
    expect(left.bavail * left.bsize).toBeLessThan(SEGMENT_BYTES);
    const { port } = postgres;
    await postgres.stop();
    rmSync(filler);
    postgres = await start(port);
    await expect.poll(async () => (await sign()).status, { timeout: 60_000 }).toBe(200);
    expect((await vault.verifyAudit()).intact).toBe(true);
    const [row] = await vault.vault
      .database("audit")
      .where({ statement: "challenge", outcome: "granted" })
      .count<{ count: number }[]>("* as count");
    expect(row?.count).toBeGreaterThanOrEqual(signed.length + 2);
  },
  180_000,
);
