import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { StoredDataKey } from "../../../keyvault/kek/proof.ts";
import { dataKeyContext } from "../../../keyvault/keys/wrapping.ts";
import type { Status } from "../../../keyvault/status.ts";
import { openToken } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { until } from "../../support/process.ts";
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

/**
 * Milliseconds that a piece of work takes on this machine, so that moments in the middle of it can be chosen.
 */
async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** Runs a command that ends well, and gives what it says. */
async function runCommand(...args: string[]): Promise<Record<string, unknown>> {
  const command = start([...args, "--json"]);
  let output = "";
  command.stdout!.on("data", (text: Buffer) => {
    output += text.toString();
  });
  expect((await once(command, "close"))[0]).toBe(0);
  return JSON.parse(output);
}

async function versions(url: string): Promise<string[]> {
  const { token } = (await call(`${url}/v1/status`, readIdentity(home, "admin"))).body as unknown as Status;
  return token?.keks ?? [];
}

test("killed at any moment of rotating and rewrapping, the vault goes on where it was", {
  timeout: 120_000,
}, async () => {
  const admin = readIdentity(home, "admin");
  const post = (url: string, path: string) => call(`${url}${path}`, admin, { method: "POST", body: {} });
  const first = await startServing();
  const rotationMs = await timeOf(() => post(first.url, "/v1/kek/rotate"));
  await kill(first.child);
  for (const part of [0, 0.3, 0.6, 0.9]) {
    const { child, url } = await startServing();
    const rotating = post(url, "/v1/kek/rotate").catch(() => {});
    await sleep(part * rotationMs);
    await kill(child);
    await rotating;
  }
  for (const least of [0, 1]) {
    const { child, url } = await startServing();
    const newest = (await versions(url)).at(-1) ?? "";
    await post(url, "/v1/kek/rewrap");
    const renewed = async () => (await tenantsByKek(home))[newest] ?? 0;
    await until("some are wrapped anew", async () => (await renewed()) >= least);
    await kill(child);
  }
  const { child, url } = await startServing();
  const { kek, remaining, damaged } = await runCommand("kek", "rewrap", "--url", url);
  await kill(child);
  expect({ remaining, damaged }).toEqual({ remaining: 0, damaged: [] });
  expect(await tenantsByKek(home)).toEqual({ [String(kek)]: TENANTS + 1 });
  const vault = await startVault(home);
  expect((await vault.verifyAudit()).intact).toBe(true);
  await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "after", ceiling: ["data:read"] });
  await vault.stop();
});

test("killed at any moment of proving and retiring, the vault has lost no data key", {
  timeout: 120_000,
}, async () => {
  const admin = readIdentity(home, "admin");
  const post = (url: string, path: string, body: object = {}) =>
    call(`${url}${path}`, admin, { method: "POST", body });
  const first = await startServing();
  await runCommand("kek", "rotate", "--url", first.url);
  await runCommand("kek", "rewrap", "--url", first.url);
  const [oldest = "", second = ""] = await versions(first.url);
  const retirementMs = await timeOf(() => post(first.url, "/v1/kek/retire", { kek: second }));
  expect(await versions(first.url)).not.toContain(second);
  await kill(first.child);
  for (const part of [0, 0.2, 0.5, 0.8]) {
    const { child, url } = await startServing();
    const retiring = post(url, "/v1/kek/retire", { kek: oldest }).catch(() => {});
    await sleep(part * retirementMs);
    await kill(child);
    await retiring;
  }
  const { child, url } = await startServing();
  if ((await versions(url)).includes(oldest)) await runCommand("kek", "retire", oldest, "--url", url);
  expect(await versions(url)).not.toContain(oldest);
  expect(await versions(url)).not.toEqual([]);
  expect((await call(`${url}/v1/status`, admin)).body).toMatchObject({ retiring: null });
  await kill(child);
  const vault = await startVault(home);
  const { database, token } = vault.vault;
  const rows = await database<StoredDataKey>("tenants").select("tenant", "kek", "wrapped_data_key");
  const found = await token.findVersions(
    rows.map(({ tenant, kek, wrapped_data_key }) => ({
      wrapped: { kek, box: wrapped_data_key },
      context: dataKeyContext(tenant),
    })),
  );
  expect(new Set(found)).toEqual(new Set([token.info().keks.at(-1)]));
  expect((await vault.verifyAudit()).intact).toBe(true);
  await vault.stop();
});
