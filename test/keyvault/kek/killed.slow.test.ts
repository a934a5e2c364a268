import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openToken } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { createHome, readIdentity, SILENT, startVault, type VaultHome } from "../fixture.ts";
import { call } from "../http/caller_support.ts";
import { storeTenants, tenantsByKek } from "./tenants_support.ts";

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));
const TENANTS = 3_000;

let home: VaultHome;
const running = new Set<ChildProcess>();

beforeAll(async () => {
  home = await createHome();
  const token = await openToken(await tokenSettings(home.config.token), SILENT);
  await storeTenants(home, token, TENANTS);
  await token.close();
});
afterAll(async () => {
  for (const child of running) child.kill("SIGKILL");
  await home.remove();
});

function start(args: string[]): ChildProcess {
  const environment = { ...home.environment, KEYVAULT_LOG_LEVEL: "info", KEYVAULT_HEALTH_PORT: undefined };
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: environment,
    stdio: ["pipe", "pipe", "inherit"],
  });
  running.add(child);
  child.once("exit", () => running.delete(child));
  return child;
}

async function startServing(): Promise<{ child: ChildProcess; url: string }> {
  const child = start(["serve"]);
  for await (const line of createInterface({ input: child.stdout! })) {
    const event = JSON.parse(line) as { event?: string; port?: number };
    if (event.event === "listening") return { child, url: `https://localhost:${event.port}` };
  }
  throw new Error("The vault ended");
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill("SIGKILL");
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
}

test("killed at any moment of rotating and rewrapping, the vault goes on where it was", {
  timeout: 120_000,
}, async () => {
  const admin = readIdentity(home, "admin");
  const post = (url: string, path: string) => call(`${url}${path}`, admin, { method: "POST", body: {} });
  for (const delay of [0, 3, 30]) {
    const { child, url } = await startServing();
    const rotating = post(url, "/v1/kek/rotate").catch(() => {});
    await sleep(delay);
    await kill(child);
    await rotating;
  }
  for (const delay of [5, 60]) {
    const { child, url } = await startServing();
    await post(url, "/v1/kek/rewrap").catch(() => {});
    await sleep(delay);
    await kill(child);
  }
  const { child, url } = await startServing();
  const command = start(["kek", "rewrap", "--json", "--url", url]);
  let output = "";
  command.stdout!.on("data", (text: Buffer) => {
    output += text.toString();
  });
  expect((await once(command, "exit"))[0]).toBe(0);
  await kill(child);
  const { kek, remaining, damaged } = JSON.parse(output) as {
    kek: string;
    remaining: number;
    damaged: string[];
  };
  expect({ remaining, damaged }).toEqual({ remaining: 0, damaged: [] });
  expect(await tenantsByKek(home)).toEqual({ [kek]: TENANTS + 1 });
  const vault = await startVault(home);
  expect((await vault.verifyAudit()).intact).toBe(true);
  await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "after", ceiling: ["data:read"] });
  await vault.stop();
});
