import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { unixSeconds } from "../../../keyvault/clock.ts";
import { openToken } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { createHome, readIdentity, SILENT, type VaultHome } from "../fixture.ts";
import { call } from "../http/caller_support.ts";

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));
const MAKERS = 4;

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

let home: VaultHome;
let vault: ChildProcess | undefined;

beforeAll(async () => {
  home = await createHome();
});
afterAll(async () => {
  vault?.kill("SIGKILL");
  await home.remove();
});

/** A vault as a process of its own; gives its address. */
async function serve(): Promise<string> {
  const child = spawn(process.execPath, [MAIN, "serve"], {
    env: { ...home.environment, KEYVAULT_LOG_LEVEL: "info", KEYVAULT_RESIDENT_KEYS: "1000" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  vault = child;
  const port = await new Promise<number>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`exit ${code}`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const event = JSON.parse(line) as { event?: string; port?: number };
      if (event.event === "listening") resolve(event.port!);
    });
  });
  return `https://localhost:${port}`;
}

const tokenProcess = (): number =>
  Number(readFileSync(`/proc/${vault!.pid}/task/${vault!.pid}/children`, "utf8").trim().split(" ")[0]);

const make = (url: string, tenant: string, name: string) =>
  call(`${url}/v1/keys`, readIdentity(home, "api"), {
    method: "POST",
    body: { tenant, purpose: "agent", label: name, ceiling: [], resident: true },
    headers: { "idempotency-key": name },
  });

/**
 * Makes keys from all sides until the vault is gone or `enough` were answered; `kill` runs once, `delay` ms
 * after the first answers.
 */
async function makeUntil(url: string, round: string, delay: number, kill: () => void): Promise<string[]> {
  const answered: string[] = [];
  let armed = false;
  let over = false;
  await Promise.all(
    Array.from({ length: MAKERS }, async (_, maker) => {
      for (let count = 0; !over && count < 50; count += 1) {
        const made = await make(url, `acc-${maker}`, `${round}-${maker}-${count}`).catch(() => undefined);
        if (made?.status !== 200) break;
        answered.push(made.body.key_id as string);
        if (answered.length < MAKERS || armed) continue;
        armed = true;
        setTimeout(() => {
          kill();
          over = true;
        }, delay);
      }
    }),
  );
  return answered;
}

async function labelsInToken(): Promise<string[]> {
  const token = await openToken(await tokenSettings(home.config.token), SILENT);
  const { labels } = await token.listResidents();
  await token.close();
  return labels.sort();
}

async function expectTogether(url: string, answered: readonly string[]): Promise<void> {
  const rows = await home.sql<{ label: string; key_id: string | null; tenant: string }>(
    "select residents.label, residents.key_id, tenant from residents left join keys using (key_id) order by 1",
  );
  expect(
    rows.filter(({ key_id }) => key_id === null),
    "no label without a key",
  ).toEqual([]);
  expect(await labelsInToken()).toEqual(rows.map(({ label }) => label));
  expect(rows.map(({ key_id }) => key_id)).toEqual(expect.arrayContaining([...answered]));
  for (const keyId of answered.slice(-2)) {
    const { tenant } = rows.find(({ key_id }) => key_id === keyId)!;
    const body = {
      tenant,
      challenge: Buffer.alloc(32, 1).toString("base64"),
      challenge_at: unixSeconds(new Date()),
    };
    const signed = await call(`${url}/v1/keys/${keyId}/sign/challenge`, readIdentity(home, "api"), {
      method: "POST",
      body,
    });
    expect(signed.status).toBe(200);
  }
}

test("killed at any moment of making resident keys, it starts with as many halves in the token as keys have them", async () => {
  const answered: string[] = [];
  for (const [round, delay] of [0, 3, 7, 12].entries()) {
    const url = await serve();
    answered.push(...(await makeUntil(url, `parent-${round}`, delay, () => vault!.kill("SIGKILL"))));
    if (vault!.signalCode === null) await once(vault!, "exit");
  }
  const url = await serve();
  await expectTogether(url, answered);
  expect(answered.length).toBeGreaterThanOrEqual(4 * MAKERS);
});

test("the same when only the token's process is killed, and the vault is stopped and started after it", async () => {
  const answered: string[] = [];
  let url = await restarted();
  for (const [round, delay] of [0, 5].entries()) {
    answered.push(
      ...(await makeUntil(url, `child-${round}`, delay, () => process.kill(tokenProcess(), "SIGKILL"))),
    );
    url = await restarted();
  }
  await expectTogether(url, answered);
});

async function restarted(): Promise<string> {
  vault!.kill("SIGTERM");
  if (vault!.exitCode === null) await once(vault!, "exit");
  return serve();
}
