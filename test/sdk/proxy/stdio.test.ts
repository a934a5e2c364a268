import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { AUTHORITY } from "../../../src/sdk/mcp/mcp.ts";
import { type Application, proofApi } from "../../proofs/application.ts";
import { createKey } from "../../support/narrow_keys.ts";

const ROOT = join(import.meta.dirname, "../../..");
const PROXY = join(ROOT, "src/sdk/proxy/main.ts");
const world = proofApi();
let app: Application;
let folder: string;
let keys: { agent: string; verify: string };
let children: ChildProcessWithoutNullStreams[] = [];

/** A server of the old era in a few lines. It answers with its environment, and obeys some orders. */
const SERVER = `
const { createInterface } = require("node:readline");
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
const tools = [{ name: "pay", description: "Pays", inputSchema: { type: "object" } }];
process.on("SIGINT", () => process.exit(7));
console.error("ready");
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") send({ id, result: { serverInfo: { name: "Pay Desk" }, capabilities: {} } });
  if (method === "tools/list") send({ id, result: { tools } });
  if (method === "ping") process.exit(3);
  if (method === "tools/call") send({ id, result: { content: [], env: process.env, params } });
  if (method === "prompts/list") {
    const deep = "[".repeat(100000) + "]".repeat(100000);
    process.stdout.write('{"jsonrpc":"2.0","id":' + id + ',"result":{"deep":' + deep + '}}\\n');
    const number = 12345678901234567890n;
    process.stdout.write('{"jsonrpc":"2.0","id":' + id + ',"result":{"n":' + number + ',"x":\\r{}}}\\n');
  }
  if (method === "logging/setLevel") process.stdout.write("x".repeat(17 * 1048576) + "\\n");
}).on("close", () => process.exit(0));
`;

function start(args: string[], env: Record<string, string> = {}, command = [process.execPath, "server.cjs"]) {
  const all = [PROXY, "mcp-proxy", ...args, "--", ...command];
  const child = spawn(process.execPath, all, { cwd: folder, env: { PATH: `${process.env.PATH}`, ...env } });
  children.push(child);
  const said: string[] = [];
  const errors = createInterface({ input: child.stderr }).on("line", (line) => said.push(line));
  /** Waits for a line of the server, or for a line of the proxy with this message. */
  const until = async (isIt: (line: string) => boolean) => {
    for (;;) {
      const found = said.find(isIt);
      if (found !== undefined) return found;
      await once(errors, "line");
    }
  };
  const line = async (msg: string) => JSON.parse(await until((each) => each.includes(`"msg":"${msg}"`)));
  const ready = until((each) => each === "ready").catch(() => undefined);
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ended = once(child, "close") as Promise<[number | null, string | null]>;
  return {
    ...{ child, said, ended, ready, line },
    send: (message: object) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`),
    raw: (text: string) => child.stdin.write(text),
    receive: async () => JSON.parse((await answers.next()).value ?? "null"),
  };
}

const settings = () => ({
  DEPUTIZE_URL: world.api.url,
  DEPUTIZE_AGENT_KEY_FILE: join(folder, "agent.key"),
  DEPUTIZE_VERIFY_KEY_FILE: join(folder, "verify.key"),
  DEPUTIZE_MCP_RULES: join(folder, "rules.json"),
});
const call = (id: number | string, given: object = {}) => ({
  ...{ id, method: "tools/call" },
  params: { name: "pay", arguments: given },
});

beforeAll(async () => {
  app = await world.application();
  const made = await Promise.all([
    createKey(world.api, app.platform, { role: "agent", agent_id: app.agentId }),
    createKey(world.api, app.platform, { role: "verify" }),
  ]);
  const [agent, verify] = made.map(({ body }) => String(body.api_key));
  keys = { agent: `${agent}`, verify: `${verify}` };
  folder = await mkdtemp(join(tmpdir(), "deputize-proxy-"));
  await writeFile(join(folder, "server.cjs"), SERVER);
  await writeFile(join(folder, "agent.key"), `${agent}\n`);
  await writeFile(join(folder, "verify.key"), `${verify}\n`);
});
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  children = [];
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("deputize mcp-proxy", () => {
  test("without settings passes calls on, and says that nothing is enforced", async () => {
    const { send, receive, said, child, ended } = start([]);
    send({ id: 1, method: "initialize", params: { capabilities: { elicitation: {} } } });
    expect(await receive()).toMatchObject({ id: 1, result: { serverInfo: { name: "Pay Desk" } } });
    send(call("a", { secret: "hunter2" }));
    expect(await receive()).toMatchObject({ id: "a", result: { params: { name: "pay" } } });
    child.stdin.end();
    expect(await ended).toEqual([0, null]);
    expect(said).toContain("ready");
    expect(said.join()).toMatch(/nothing is enforced.*"code":"tool_without_rule","not_enforced":true/s);
    expect(said.join()).not.toContain("hunter2");
  });

  test("writes rules with --accept, and then enforces them in front of the same command", async () => {
    const rules = join(folder, "rules.json");
    const accepting = start(["--accept", "--rules", rules]);
    expect(await accepting.ended).toEqual([0, null]);
    expect(accepting.said.join("\n")).toMatch(/"pay" is new: \{"scope":"payments:send"\}/);
    const written = JSON.parse(await readFile(rules, "utf8"));
    expect(written).toMatchObject({ server: "pay-desk", mode: "observe" });
    await writeFile(rules, JSON.stringify({ ...written, mode: "enforce" }));

    const { send, raw, receive, child, ended, said } = start([], settings());
    raw(
      `[${JSON.stringify({ jsonrpc: "2.0", ...call(9) })}]\n{"jsonrpc":"2.0","id":8,"id":9,"method":"ping"}\n`,
    );
    expect([await receive(), await receive()]).toMatchObject([
      { error: { code: -32600 } },
      { error: { code: -32700 } },
    ]);
    send({ id: 1, method: "initialize", params: {} });
    expect(await receive()).toHaveProperty("result.serverInfo");
    send(call("a", { to: "bob" }));
    const { result } = await receive();
    expect(result).toMatchObject({ params: { arguments: { to: "bob" } } });
    expect(Object.keys(result.env).filter((name) => /deputize/i.test(name))).toEqual([]);
    send({ id: "b", method: "tools/call", params: { name: "other" } });
    expect(await receive()).toMatchObject({
      result: { _meta: { [AUTHORITY]: { code: "tool_without_rule" } } },
    });
    child.stdin.end();
    expect(await ended).toEqual([0, null]);
    const lines = said.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
    expect(lines.filter(({ msg }) => msg === "call")).toMatchObject([
      { tool: "pay", decision: "allow", outcome: "executed", agent_id: app.agentId },
      { decision: "refused", code: "tool_without_rule" },
    ]);
    for (const key of Object.values(keys)) expect(said.join()).not.toContain(key);
  });

  test("ends as the server ends, and passes signals on", async () => {
    const exiting = start([]);
    exiting.send({ id: 1, method: "ping" });
    expect(await exiting.ended).toEqual([3, null]);
    const interrupted = start([]);
    await interrupted.ready;
    interrupted.child.kill("SIGINT");
    expect(await interrupted.ended).toEqual([7, null]);
    const terminated = start([]);
    await terminated.ready;
    terminated.child.kill("SIGTERM");
    expect(await terminated.ended).toEqual([null, "SIGTERM"]);
    expect(await start([], {}, [join(folder, "absent")]).ended).toEqual([127, null]);
  });

  test("serves HTTP and metrics until a signal ends it", async () => {
    const upstream = createServer((_, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end('{"jsonrpc":"2.0","id":1,"result":{}}');
    });
    await once(upstream.listen(0, "127.0.0.1"), "listening");
    const { port } = upstream.address() as AddressInfo;
    const options = ["--upstream", `http://127.0.0.1:${port}/mcp`, "--metrics", "127.0.0.1:0"];
    const { child, line, ended } = start(["--listen", "127.0.0.1:0", ...options], {}, []);
    const metrics = await line("metrics");
    const listening = await line("listening");
    const answer = await fetch(`http://127.0.0.1:${listening.port}/mcp`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay"}}',
    });
    expect(await answer.json()).toMatchObject({ result: {} });
    const text = await (await fetch(`http://127.0.0.1:${metrics.port}/metrics`)).text();
    expect(text).toContain('deputize_mcp_proxy_enforced{server="server"} 0');
    child.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
    upstream.close();
    upstream.closeAllConnections();
  });

  test("goes on after a message that is nested too deeply, and sends every message as one line", async () => {
    const { send, child, ended, said } = start([]);
    const parts: Buffer[] = [];
    child.stdout.on("data", (part) => parts.push(part));
    send({ id: 1, method: "prompts/list" });
    const text = () => Buffer.concat(parts).toString();
    await expect.poll(text, { timeout: 10_000 }).toContain("\n");
    expect(text()).toBe('{"jsonrpc":"2.0","id":1,"result":{"n":12345678901234567890,"x": {}}}\n');
    expect(said.join()).toContain("server_too_deep");
    child.stdin.end();
    expect(await ended).toEqual([0, null]);
  });

  test("ends a server whose message is too large", async () => {
    const { send, ended, said } = start([]);
    send({ id: 1, method: "logging/setLevel", params: { level: "info" } });
    expect(await ended).toEqual([null, "SIGTERM"]);
    expect(said.join()).toContain("server_too_large");
  });
});

describe("deputize mcp-proxy refuses to start", () => {
  const failing = async (args: string[], env: Record<string, string>) => {
    const { ended, said } = start(args, env);
    const [code] = await ended;
    return `${code} ${said.join()}`;
  };

  test.each<[string, () => [string[], Record<string, string>], RegExp]>([
    ["with an option that it does not know", () => [["--enforce"], {}], /^2 error/],
    [
      "with a rules file that is gone",
      () => [["--rules", "gone.json"], {}],
      /^78 error: gone.json.*--accept/,
    ],
    [
      "with a full key in place of an agent key",
      () => [[], { ...settings(), DEPUTIZE_AGENT_KEY_FILE: "full.key" }],
      /^78 error: DEPUTIZE_AGENT_KEY_FILE: must contain a key that begins with dpza_/,
    ],
    [
      "in enforce without a service",
      () => [["--rules", "enforce.json"], {}],
      /^78 error: enforce needs DEPUTIZE_URL/,
    ],
    [
      "in enforce without a verify key",
      () => [["--rules", "enforce.json"], { ...settings(), DEPUTIZE_VERIFY_KEY_FILE: "" }],
      /^78 error: enforce needs DEPUTIZE_VERIFY_KEY_FILE, .* verify key\. Create the key/,
    ],
    [
      "in enforce without an agent key",
      () => [["--rules", "enforce.json"], { ...settings(), DEPUTIZE_AGENT_KEY_FILE: "" }],
      /^78 error: enforce needs DEPUTIZE_AGENT_KEY_FILE, .* agent key\. Create the key/,
    ],
  ])("%s", async (_, given, expected) => {
    await writeFile(join(folder, "full.key"), app.platform.apiKey);
    const file = { server: "pay", mode: "enforce", tools: {} };
    await writeFile(join(folder, "enforce.json"), JSON.stringify(file));
    const said = await failing(...given());
    expect(said).toMatch(expected);
    expect(said).not.toContain(app.platform.apiKey);
  });
});
