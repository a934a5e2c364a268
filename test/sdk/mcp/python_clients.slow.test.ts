import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createGuard } from "../../../src/sdk/guard.ts";
import { AUTHORITY } from "../../../src/sdk/mcp/mcp.ts";
import { type Application, proofApi } from "../../proofs/application.ts";
import { ran } from "../../support/outside_tools.ts";
import { approve } from "../../support/platform_world.ts";
import { oldPython, PROGRAMS, python, pythonVariables, startBank } from "../python_environments.ts";
import { PAYMENT, type Paid, SCOPE, SERVERS } from "./bank.ts";

const missing = python.missing ?? oldPython.missing;
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

const world = proofApi();
const tools: { paid: Paid[] } = { paid: [] };
let app: Application;

type Step = { name: string; arguments?: object; meta?: object };

/** Each client with its environment. */
const CLIENTS = {
  "mcp 2.x": ["mcp", python],
  "mcp 2.x of the old era": ["mcp-old", python],
  "a session of mcp 2.x": ["session", python],
  FastMCP: ["fastmcp", python],
  "mcp 1.x": ["session", oldPython],
  LangChain: ["langchain", oldPython],
} as const;
type ClientName = keyof typeof CLIENTS;
const NAMES = Object.keys(CLIENTS) as ClientName[];

const variables = ({ platform, person, agentId }: Application, folder: string | undefined) => ({
  ...pythonVariables(folder),
  BASE_URL: world.api.url,
  AGENT_KEY: platform.apiKey,
  VERIFY_KEY: platform.apiKey,
  AGENT_ID: agentId,
  VERIFIER_ID: platform.connectionId,
  WORKSPACE_ID: person.accountId,
});

/** Runs the steps with a Python client, and returns what it prints about each. */
async function act(client: ClientName, of: Application, at: Record<string, string>, steps: Step[]) {
  const [kind, { folder }] = CLIENTS[client];
  const args = [join(PROGRAMS, "mcp_client.py"), kind, JSON.stringify(steps)];
  const { printed, said } = await ran("python3", args, { env: { ...variables(of, folder), ...at } });
  const lines = printed.split("\n").filter((line) => line.startsWith("{"));
  expect(lines, said).toHaveLength(steps.length);
  return lines.map((line) => JSON.parse(line));
}

/** Returns the command of a Python bank over stdio. The bank always has the packages of `mcp` 2.x. */
const stdio = (kind: string) => ({
  MCP_COMMAND: JSON.stringify([
    ...["env", `PYTHONPATH=${pythonVariables(python.folder).PYTHONPATH}`, "python3"],
    ...[join(PROGRAMS, "mcp_bank.py"), kind, "stdio"],
  ]),
});

const pay = (more: Partial<Step> = {}): Step => ({ name: "send_payment", arguments: PAYMENT, ...more });
const paid = (of = app) => ({ text: expect.stringMatching(`^paid .*for ${of.person.humanId}$`) });
const refused = (code: string) => ({ is_error: true, entry: { code } });

describe.skipIf(missing !== undefined)("a Python client", { timeout: 240_000 }, () => {
  const servers: Record<string, () => Promise<Record<string, string>>> = {};
  const stops: (() => unknown)[] = [];

  beforeAll(async () => {
    app = await world.application();
    const guard = createGuard({ baseUrl: world.api.url, apiKey: app.platform.apiKey });
    for (const name of ["SDK 1.x over HTTP", "SDK 2.x over HTTP"] as const) {
      // A server of SDK 1.x has only one session.
      servers[`TypeScript ${name}`] = async () => {
        const { url, stop } = await SERVERS[name]({ guard, tools });
        stops.push(stop);
        return { MCP_URL: `${url}` };
      };
    }
    for (const kind of ["mcp", "fastmcp"]) {
      const { url, bank } = await startBank(kind, variables(app, python.folder));
      servers[`Python ${kind} over HTTP`] = async () => ({ MCP_URL: url.href });
      servers[`Python ${kind} over stdio`] = async () => stdio(kind);
      stops.push(() => bank.kill());
    }
  });
  afterAll(async () => {
    for (const stop of stops) await stop();
  });

  test.each(NAMES)("%s runs allowed calls at each server, and gets refusals as results", async (name) => {
    expect(Object.keys(servers)).toHaveLength(6);
    for (const [server, start] of Object.entries(servers)) {
      const isLangChain = name === "LangChain";
      // LangChain's adapters pass no `_meta` on, and return only the text of a refusal.
      const meta = isLangChain ? undefined : { [AUTHORITY]: { invocation_id: randomUUID() } };
      const again = isLangChain ? [] : [pay({ ...(meta && { meta }) })];
      const [first, health, ...refusals] = await act(name, app, await start(), [
        pay({ ...(meta && { meta }) }),
        { name: "health" },
        ...again,
        { name: "hidden", arguments: { to: "bob" } },
      ]);
      expect([server, first, health]).toMatchObject([server, paid(), { text: "healthy" }]);
      const expected = isLangChain
        ? [{ text: expect.stringContaining("Nothing was done.") }]
        : ["invocation_replayed", "tool_without_rule"].map(refused);
      expect([server, ...refusals]).toMatchObject([server, ...expected]);
    }
  });

  test.each(["mcp 2.x", "FastMCP"] as const)("%s proves each round of a call: attack 1", async (name) => {
    const { currency: _, ...given } = PAYMENT;
    for (const kind of ["mcp", "fastmcp"]) {
      const meta = { [AUTHORITY]: { invocation_id: `round-${randomUUID()}` } };
      const at = await servers[`Python ${kind} over HTTP`]?.();
      const [answer] = await act(name, app, at ?? {}, [{ name: "confirm_payment", arguments: given, meta }]);
      expect(answer).toMatchObject(paid());
    }
  });

  test.each(["mcp 2.x", "FastMCP", "mcp 1.x", "LangChain"] as const)(
    "%s sends nothing without authority, and asks a person if it may",
    async (name) => {
      const without = await world.application([]);
      const at = stdio("mcp");
      expect(await act(name, without, at, [pay()])).toEqual([{ error: "NotDelegated no_active_delegation" }]);

      const [kind, { folder }] = CLIENTS[name];
      const args = [join(PROGRAMS, "mcp_client.py"), kind, JSON.stringify([pay()])];
      const env = { ...variables(without, folder), ...at, PURPOSE: "Pay Bob" };
      const asker = spawn("python3", args, { env, stdio: ["ignore", "pipe", "ignore"] });
      const lines: unknown[] = [];
      createInterface({ input: asker.stdout }).on("line", (line) => lines.push(JSON.parse(line)));
      await expect.poll(() => lines[0], { timeout: 60_000 }).toEqual({ asked: expect.any(String) });
      const { asked } = lines[0] as { asked: string };
      const approved = await approve(without.person, asked, [SCOPE], { once: true });
      expect(approved.status, approved.text).toBe(200);
      await expect.poll(() => lines[1], { timeout: 60_000 }).toMatchObject(paid(without));
    },
  );
});
