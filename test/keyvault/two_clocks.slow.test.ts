import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { shiftedClock } from "../support/surroundings/shifted_clock.ts";
import { createHome, issueIdentity, readIdentity, startVault, type VaultHome } from "./fixture.ts";
import { type ServedVault, serveProgram } from "./program.ts";

vi.setConfig({ testTimeout: 120_000 });

/*
 * The vault runs in a process whose clock is wrong. Its database, its callers and this process have the clock
 * of this machine. The vault with a right clock and a database with a wrong one differ in the same way.
 */

const HOUR = 3_600;
const DAY = 24 * HOUR;
const DAY_MS = DAY * 1000;
let home: VaultHome;
let served: ServedVault | undefined;
let client: VaultClient | undefined;
let agent: string;
/** Keys that two admins destroyed 8 days ago: the seeds of one are due since yesterday, of one in 22 days. */
let due: string;
let later: string;

beforeAll(async () => {
  home = await createHome();
  const eightDaysAgo = new Date(Date.now() - 8 * DAY_MS);
  const validity = { notBefore: new Date(Date.now() - 30 * DAY_MS), notAfter: new Date(Date.now() + DAY_MS) };
  const [alice, bob] = await Promise.all(
    ["alice", "bob"].map((name) => issueIdentity(home, { kind: "client", role: "admin", name }, validity)),
  );
  const vault = await startVault(home, eightDaysAgo);
  [due, later, agent] = (await Promise.all(
    [1, 2, 3].map(async () => (await vault.makeAgent("acc-1")).key_id),
  )) as [string, string, string];
  for (const [key, after_days] of [
    [due, 7],
    [later, 30],
  ] as const) {
    for (const admin of [alice, bob]) await vault.post(`/v1/keys/${key}/destroy`, { after_days }, admin);
  }
  await vault.stop();
});
afterEach(async () => {
  await client?.close();
  await served?.kill();
});
afterAll(() => home.remove());

async function start(seconds: number): Promise<void> {
  served = await serveProgram(home, { environment: shiftedClock(seconds) });
  client = createVaultClient({ url: served.url, ...readIdentity(home, "api") });
}

/** Signs a challenge of the present time by this process's clock, `ago` seconds ago. */
async function sign(ago = 0): Promise<string> {
  const challenge_at = Math.floor(Date.now() / 1000) - ago;
  const challenge = { challenge: Buffer.alloc(32, 1).toString("base64"), challenge_at };
  const signed = client?.signChallenge({ tenant: "acc-1", keyId: agent }, challenge);
  return (
    signed?.then(
      () => "signed",
      (error: unknown) => String((error as { code?: string }).code),
    ) ?? ""
  );
}

const isReady = () =>
  client?.health().then(
    () => true,
    () => false,
  );

const seedsOf = async (key: string) => {
  const [row] = await home.sql<{ bytes: number }>(
    "select octet_length(wrapped_seeds) as bytes from keys where key_id = $1",
    [key],
  );
  return row?.bytes;
};

/** Ends the vault, which completes an erasure that runs. */
async function stop(): Promise<void> {
  served?.child.kill("SIGTERM");
  await served?.ended;
}

const both = (...seconds: number[]) => seconds.flatMap((one) => [one, -one]);

describe.each(both(3 * HOUR, 40 * DAY))("a vault whose clock is wrong by %d s", (seconds) => {
  test("judges times by its database's clock, erases no seeds, and is not ready", async () => {
    await start(seconds);
    expect([await sign(), await sign(55), await isReady()]).toEqual(["signed", "signed", false]);
    expect(served?.output()).toContain('"event":"clock_wrong"');
    await stop();
    expect(served?.output()).not.toContain('"event":"erased"');
    for (const key of [due, later]) expect(await seedsOf(key)).toBeGreaterThan(0);
  });
});

describe.each(both(0.2, 0.5, 2, 3))("a vault whose clock is wrong by %d s", (seconds) => {
  test("refuses no time that is up to 55 s old, and is ready", async () => {
    await start(seconds);
    expect([await sign(), await sign(55), await isReady()]).toEqual(["signed", "signed", true]);
    await stop();
    expect(await seedsOf(later)).toBeGreaterThan(0);
  });
});

test("a vault whose clock agrees with its database's erases what is due, and nothing else", async () => {
  await start(0);
  await expect.poll(() => seedsOf(due), { timeout: 20_000 }).toBe(0);
  await stop();
  expect(await seedsOf(later)).toBeGreaterThan(0);
});
