import { execFile, execFileSync } from "node:child_process";
import { appendFile, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { signIn } from "../../src/dev/tour/person.ts";
import { type DevRun, startDev, untilLeft, untilUp, workersOn } from "../support/dev_stack.ts";
import { pythonPackages } from "../support/outside_tools.ts";
import { killHard, until } from "../support/process.ts";

/** Each test continues from the state that the previous test left. */
const OWNER = "owner@example.test";
const NOBODY = "nobody@example.test";
const ESCAPE = String.fromCharCode(27);
const STARTED_MS = 180_000;

const noPython = (await pythonPackages("httpx2-1", ["hatchling==1.33.0", "httpx2==2.16.2"])).missing;
if (noPython !== undefined) console.error(`The agent in Python does not run, missing: ${noPython}`);

let folder: string;
const running: DevRun[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-dev-"));
});

afterEach(() => Promise.all(running.splice(0).map(({ child }) => killHard(child))));

afterAll(async () => {
  await untilLeft(folder);
  await rm(folder, { recursive: true, force: true });
});

function start(...args: string[]): DevRun {
  const run = startDev(folder, args);
  running.push(run);
  return run;
}

async function startUp(...args: string[]) {
  const run = start(...args);
  await untilUp(run, args.includes("--json") ? '"step":"connection_kept"' : undefined);
  return { ...run, connection: await keptConnection() };
}

async function keptConnection(): Promise<Record<string, string>> {
  return JSON.parse(await readFile(join(folder, "connection.json"), "utf8"));
}

function stepsOf({ said }: DevRun): Record<string, unknown>[] {
  const steps = said.out
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  for (const step of steps) expect(Object.keys(step)).toEqual(["step", "ok", "ms", "detail"]);
  return steps;
}

async function interrupt({ child, exit }: DevRun): Promise<number | null> {
  child.kill("SIGINT");
  const code = await exit;
  await untilLeft(folder);
  return code;
}

async function creditOf(email: string): Promise<number> {
  const { person } = await signIn(String((await keptConnection()).base_url), email);
  const credits = await person.call<{ balance_micro_usd: number }>("GET", "/v1/service/credits");
  return credits.balance_micro_usd;
}

async function paste({ said }: DevRun): Promise<string> {
  const lines = said.out.split("\n").filter((line) => line.includes("curl "));
  expect(lines).toHaveLength(3);
  const { stdout } = await promisify(execFile)("sh", ["-c", lines.join("\n")], { timeout: 30_000 });
  const { decision, decision_reason } = JSON.parse(stdout) as Record<string, unknown>;
  return decision === undefined ? stdout : `${decision} ${decision_reason}`;
}

/** Runs the printed lines of the two agents, which differ in their program. */
async function order({ said }: DevRun): Promise<string[]> {
  const lines = said.out.split("\n").filter((line) => /^\(cd .*(agent\.mjs|order_agent\.py)\)$/.test(line));
  expect(lines).toHaveLength(2);
  const printed: string[] = [];
  for (const line of noPython === undefined ? lines : lines.slice(0, 1)) {
    printed.push((await promisify(execFile)("sh", ["-c", line], { timeout: 120_000 })).stdout.trim());
  }
  return printed;
}

/** Returns the variables for agents and applications. */
async function values(): Promise<Record<string, string>> {
  const lines = (await readFile(join(folder, "agents/values.env"), "utf8")).trimEnd().split("\n");
  return Object.fromEntries(lines.map((line) => line.split(/=(.*)/, 2)));
}

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  );

const manifest = (name: string) => join(folder, "manifests", name);

async function edit(name: string, change: (text: string) => string): Promise<void> {
  const before = await readFile(manifest(name), "utf8");
  const after = change(before);
  expect(after).not.toBe(before);
  await writeFile(manifest(name), after);
}

/** Expects that the step called `title` reports the interruption. */
async function interruptAt(title: string, when: () => Promise<boolean>): Promise<void> {
  const run = start("--once");
  await until("the moment has come", when, STARTED_MS);
  expect(await interrupt(run)).toBe(130);
  expect(run.said.out).toMatch(new RegExp(`^FAIL ${title} .*\\n {5}stopped\\n`, "m"));
  expect(run.said.err).toBe("");
}

test("a start interrupted while it creates Postgres exits with 130, and leaves no process and no partial data", async () => {
  const names = () => readdir(join(folder, "postgres")).catch(() => []);
  await interruptAt("Postgres", async () => (await names()).some((name) => name.includes(".partial-")));
  expect(await names()).toEqual(["data.password"]);
});

test("a start interrupted while it prepares the databases exits with 130, and works the next time", () =>
  interruptAt("Databases and their schema", () => exists(join(folder, "logs", "keyvault_init.log"))));

test("a running stack prints commands that return allow, and agents that order, and writes files of values that only their owner can read", async () => {
  const stack = await startUp();
  expect((await stat(join(folder, "connection.json"))).mode & 0o777).toBe(0o600);
  expect(stack.said.out).toContain(stack.connection.api_key);
  expect(stack.said.out).not.toContain(ESCAPE);
  expect(stack.said.err).toBe("");
  expect(await paste(stack)).toBe("allow authorized");
  expect(await paste(stack)).toBe("allow authorized");
  expect((await stat(join(folder, "agents/values.env"))).mode & 0o777).toBe(0o600);
  const { AGENT_KEY, VERIFY_KEY, SHOP_URL } = await values();
  expect([AGENT_KEY?.slice(0, 5), VERIFY_KEY?.slice(0, 5), SHOP_URL]).toEqual(["dpza_", "dpzv_", undefined]);
  expect(stack.said.out).not.toContain(VERIFY_KEY);
  const [first, ...second] = await order(stack);
  expect(first).toMatch(/^200 {"item":"coal","for":"[0-9a-f]{32}"}$/);
  expect(second).toEqual(noPython === undefined ? ["200 coal"] : []);
  const { person } = await signIn(String(stack.connection.base_url), OWNER);
  await person.call("POST", `/v1/service/delegations/${stack.connection.cert_id}/revoke`, {
    reason: "enough",
  });
  expect(await interrupt(stack)).toBe(0);
});

test("the next start keeps the platform and key, creates a new delegation, and adds the requested aliases and credits", async () => {
  const { base_url: _, cert_id: revoked, ...same } = await keptConnection();
  const { VERIFY_KEY } = await values();
  const stack = await startUp("--alias", "ratify", "--alias", "trial,other", "--credits", "50");
  expect(await creditOf(OWNER)).toBe(50_000_000 - 4 * 2_000);
  expect(await creditOf("trial@example.test")).toBe(50_000_000);
  expect(stack.connection).toMatchObject(same);
  expect((await values()).VERIFY_KEY).toBe(VERIFY_KEY);
  expect(stack.connection.cert_id).not.toBe(revoked);
  expect(await paste(stack)).toBe("allow authorized");
  for (const [word, status] of [
    ["ratify", 200],
    ["trial", 200],
    ["other", 200],
    ["service", 200],
    ["none", 404],
  ] as const) {
    const headers = { [`X-${word}-API-Key`]: String(stack.connection.api_key) };
    const url = `${stack.connection.base_url}/v1/${word}/challenge`;
    expect([word, (await fetch(url, { method: "POST", headers })).status]).toEqual([word, status]);
  }
  expect(stack.said.out).toMatch(/owner@example\.test was granted 4\d\.\d+ USD and has 50\.00 USD/);
  expect(await interrupt(stack)).toBe(0);
});

test("a start with a suspended delegation object keeps the granted certificate", async () => {
  const before = await keptConnection();
  await edit("delegation.yaml", (text) => text.replace("spec:\n", "spec:\n  suspend: true\n"));
  const stack = await startUp();
  expect(stack.connection.cert_id).toBe(before.cert_id);
  expect(await paste(stack)).toBe("allow authorized");
  expect(await interrupt(stack)).toBe(0);
});

test("a start keeps a callback URL that the manifest declares, and reports each refused document", async () => {
  const url = "http://127.0.0.1:18099/mine";
  await edit("platform.yaml", (text) => text.replace("spec:\n", `spec:\n  callbackUrl: ${url}\n`));
  const stack = await startUp();
  const { base_url, connection_id } = stack.connection;
  const { person } = await signIn(String(base_url), OWNER);
  const callback = await person.call("GET", `/v1/service/connections/${connection_id}/callback`);
  expect(callback).toMatchObject({ callback_url: url });
  expect(stack.said.out).toContain(`delegation.approved goes to the callbackUrl in the manifest, ${url}`);
  await writeFile(join(folder, "manifests", "typo.yaml"), "apiVersion: deputize.io/v1alpha1\nkind: Agnet\n");
  await until("the refusal is reported", () => stack.said.err.includes("Refused: typo.yaml (document 1): "));
  await rm(join(folder, "manifests", "typo.yaml"));
  await until("it is gone", () => stack.said.out.includes("All documents of the folder are accepted again"));
  expect(await interrupt(stack)).toBe(0);
  await edit("platform.yaml", (text) => text.replace(/ {2}callbackUrl: .*\n/, ""));
});

test("a start without the vault's PIN file prints one message with the remedy, and works when the file is back", async () => {
  const pin = join(folder, "keyvault", "pin");
  await rename(pin, `${pin}.away`);
  const stack = start("--once");
  expect(await stack.exit).toBe(1);
  await untilLeft(folder);
  await rename(`${pin}.away`, pin);
  expect(stack.said.out).toMatch(/^FAIL Databases and their schema \d.*\n$/m);
  expect(stack.said.out).not.toContain(pin);
  expect(stack.said.err.trimEnd().split("\n")).toEqual([
    `The key vault could not be made ready: the PIN file ${pin} is not there; put it back`,
    "Put that right, or start afresh with another folder: --data",
    `Its log is ${join(folder, "logs", "keyvault_init.log")}`,
  ]);
});

test("a start with a namespace bound to an unknown account reports this problem, and keeps running without the tour", async () => {
  await edit("tenants.yaml", (text) => text.replace(OWNER, NOBODY));
  const stack = await startUp("--json");
  const steps = stepsOf(stack);
  expect(steps.filter(({ ok }) => ok !== true)).toEqual([
    expect.objectContaining({
      step: "platform_registered",
      detail: expect.stringContaining("NamespaceNotBound"),
    }),
  ]);
  expect(steps.at(-1)).toMatchObject({
    step: "connection_kept",
    ok: true,
    detail: join(folder, "connection.json"),
  });
  expect(stack.said.err).toBe(
    "The stack stays up without the rest of the tour; correct what it reports, and start again\n",
  );
  expect(stack.connection).not.toHaveProperty("api_key");
  expect(await interrupt(stack)).toBe(0);
});

test("a start with --once exits with 1 if a namespace is bound to an unknown account", async () => {
  const stack = start("--once", "--json");
  expect(await stack.exit).toBe(1);
  await untilLeft(folder);
  const steps = stepsOf(stack);
  expect(steps.at(-1)).toMatchObject({ step: "platform_registered", ok: false });
  expect(steps.slice(0, -1).every(({ ok }) => ok === true)).toBe(true);
  expect(stack.said.err).toMatch(/^"platform\.yaml .*NamespaceNotBound.*\n$/);
});

test("a start interrupted while Postgres recovers exits with 130 without waiting for it", async () => {
  const data = join(folder, "postgres", "data");
  // With this file, the server waits ten minutes for a recovery that cannot succeed.
  execFileSync("cp", ["-p", join(data, "PG_VERSION"), join(data, "recovery.signal")]);
  await appendFile(join(data, "postgresql.auto.conf"), "restore_command = 'sleep 600'\n");
  const waits = async () => (await workersOn(folder)).some((command) => command.startsWith("sleep"));
  await interruptAt("Postgres", waits);
});
