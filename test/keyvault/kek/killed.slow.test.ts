import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { boxOf, type WrappedDataKey } from "../../../keyvault/keys/data_keys.ts";
import type { Status } from "../../../keyvault/status.ts";
import { openToken } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { until } from "../../support/process.ts";
import { createHome, readIdentity, SILENT, startVault, type VaultHome } from "../fixture.ts";
import { call } from "../http/caller_support.ts";
import { runProgram, serveProgram } from "../program.ts";
import { storeTenants, tenantsByKek } from "./tenants_support.ts";

const TENANTS = 3_000;

let home: VaultHome;

beforeAll(async () => {
  home = await createHome();
  const token = await openToken(await tokenSettings(home.config.token), SILENT);
  await storeTenants(home, token, TENANTS);
  await token.close();
});
afterAll(() => home.remove());

const startServing = () => serveProgram(home);
const post = (url: string, path: string, body: object = {}) =>
  call(`${url}${path}`, readIdentity(home, "admin"), { method: "POST", body });

/** Returns milliseconds, so that tests can interrupt a task in the middle on any machine. */
async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

async function runCommand(...args: string[]): Promise<Record<string, unknown>> {
  const { code, output } = await runProgram(home, [...args, "--json"]);
  expect(code, output).toBe(0);
  return JSON.parse(output);
}

async function versions(url: string): Promise<string[]> {
  const { token } = (await call(`${url}/v1/status`, readIdentity(home, "admin"))).body as unknown as Status;
  return token?.keks ?? [];
}

test("a vault killed during a rotation or a rewrapping of data keys continues after a restart", {
  timeout: 120_000,
}, async () => {
  const first = await startServing();
  const rotationMs = await timeOf(() => post(first.url, "/v1/kek/rotate"));
  await first.kill();
  for (const part of [0, 0.4, 0.8]) {
    const { kill, url } = await startServing();
    const rotating = post(url, "/v1/kek/rotate").catch(() => {});
    await sleep(part * rotationMs);
    await kill();
    await rotating;
  }
  for (const least of [0, 1]) {
    const { kill, url } = await startServing();
    const newest = (await versions(url)).at(-1) ?? "";
    await post(url, "/v1/kek/rewrap");
    const renewed = async () => (await tenantsByKek(home))[newest] ?? 0;
    await until("some are wrapped again", async () => (await renewed()) >= least);
    await kill();
  }
  const { kill, url } = await startServing();
  const { kek, remaining, damaged } = await runCommand("kek", "rewrap", "--url", url);
  await kill();
  expect({ remaining, damaged }).toEqual({ remaining: 0, damaged: [] });
  expect(await tenantsByKek(home)).toEqual({ [String(kek)]: TENANTS + 1 });
  const vault = await startVault(home);
  expect((await vault.verifyAudit()).intact).toBe(true);
  await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "after", ceiling: ["data:read"] });
  await vault.stop();
});

test("a vault killed while it retires a version of the key-encryption key loses no data key", {
  timeout: 120_000,
}, async () => {
  const first = await startServing();
  await runCommand("kek", "rotate", "--url", first.url);
  await runCommand("kek", "rewrap", "--url", first.url);
  const [oldest = "", second = ""] = await versions(first.url);
  const retirementMs = await timeOf(() => post(first.url, "/v1/kek/retire", { kek: second }));
  expect(await versions(first.url)).not.toContain(second);
  await first.kill();
  for (const part of [0, 0.3, 0.7]) {
    const { kill, url } = await startServing();
    const retiring = post(url, "/v1/kek/retire", { kek: oldest }).catch(() => {});
    await sleep(part * retirementMs);
    await kill();
    await retiring;
  }
  const { kill, url } = await startServing();
  if ((await versions(url)).includes(oldest)) await runCommand("kek", "retire", oldest, "--url", url);
  expect(await versions(url)).not.toContain(oldest);
  expect(await versions(url)).not.toEqual([]);
  expect((await call(`${url}/v1/status`, readIdentity(home, "admin"))).body).toMatchObject({
    retiring: null,
  });
  await kill();
  const vault = await startVault(home);
  const { database, token } = vault.vault;
  const rows = await database<WrappedDataKey>("tenants").select("tenant", "kek", "wrapped_data_key");
  const found = await token.findVersions(rows.map(boxOf));
  expect(new Set(found)).toEqual(new Set([token.info().keks.at(-1)]));
  expect((await vault.verifyAudit()).intact).toBe(true);
  await vault.stop();
});
