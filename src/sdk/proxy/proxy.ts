import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type Agent, createAgent } from "../agent/create_agent.ts";
import { createGuard } from "../create_guard.ts";
import { exchange } from "../service/exchange.ts";
import { createLookUp, OWN_KEY_PATH, readObject, readOwnKey } from "../service/own_key.ts";
import { readSettings } from "../settings.ts";
import { acceptTools, writeRules } from "./accept.ts";
import type { Decider } from "./decide.ts";
import { createCallers } from "./http/callers.ts";
import { serveHttp } from "./http/serve_http.ts";
import { createJournal, type Journal } from "./journal.ts";
import { listToolsOf } from "./list_tools.ts";
import type { ProxyParts } from "./session.ts";
import {
  type Address,
  foreignEnvironment,
  HELP,
  type ProxySettings,
  readProxySettings,
  SettingError,
} from "./settings.ts";
import { type Ended, endLike, runStdio } from "./stdio.ts";
import { createToolList } from "./tool_list.ts";

const REMINDER_MS = 60_000;
const FLUSH_MS = 2_000;
const SIGNALS: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"];

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Runs `deputize mcp-proxy`, and resolves when the server has ended. Stdout belongs to the protocol, so all
 * lines of the proxy go to stderr.
 */
export async function runMcpProxy(args: readonly string[], env: Environment): Promise<void> {
  try {
    const settings = readProxySettings(args, env);
    if (settings === "help") process.stdout.write(HELP);
    else await (settings.accept ? accept(settings, env) : run(settings, env));
  } catch (error) {
    if (!(error instanceof SettingError)) throw error;
    process.stderr.write(`error: ${error.message}\n`);
    process.exitCode = error.status;
  }
}

async function accept(
  { command, http, rules, rulesFile = "" }: ProxySettings,
  env: Environment,
): Promise<void> {
  const { tools, serverName } = await listToolsOf(http?.upstream ?? command, foreignEnvironment(env)).catch(
    (error: Error) => {
      throw new SettingError(error.message, 1);
    },
  );
  const acceptance = acceptTools(rules, tools, serverName);
  writeRules(rulesFile, acceptance);
  const { mode } = acceptance.rules;
  const lines = [
    ...acceptance.differences,
    `${rulesFile} has ${Object.keys(acceptance.written).length} tools. Mode: ${mode}.`,
  ];
  process.stderr.write(`${lines.join("\n")}\n`);
}

async function run(settings: ProxySettings, env: Environment): Promise<void> {
  const { rules, command } = settings;
  const journal = createJournal(rules.server, rules.mode, (line) => void process.stderr.write(line));
  const decider = createDecider(settings, journal);
  const parts: ProxyParts = { rules, journal, tools: createToolList(rules, journal), decider };
  const stopMetrics = settings.metrics && (await serveMetrics(settings.metrics, journal));
  const stopReminders = remind(journal, rules.mode);
  const end = settings.http
    ? await serve(parts, settings, settings.http)
    : await runStdio(parts, createOwnAgent(settings), {
        command,
        env: foreignEnvironment(env),
        input: process.stdin,
        output: process.stdout,
        onStart(child) {
          for (const signal of SIGNALS) process.on(signal, () => child.kill(signal));
        },
      });
  stopReminders();
  stopMetrics?.();
  await Promise.race([decider?.guard.flush(), new Promise((done) => setTimeout(done, FLUSH_MS).unref())]);
  await endLike(end);
}

/** Serves HTTP until a signal ends the process. */
async function serve(
  parts: ProxyParts,
  { service }: ProxySettings,
  { listen, upstream, origins }: NonNullable<ProxySettings["http"]>,
): Promise<Ended> {
  const findCaller = service && createCallers(wordOf(service));
  const settings = { ...listen, upstream, origins, findCaller };
  const { port, stop } = await serveHttp(parts, settings).catch((error: NodeJS.ErrnoException) => {
    throw new SettingError(`${listen.host}:${listen.port}: cannot listen (${error.code})`, 78);
  });
  parts.journal.note("listening", { port });
  const end = new AbortController();
  for (const signal of SIGNALS) process.once(signal, () => end.abort());
  await once(end.signal, "abort");
  stop();
  return { code: 0, signal: null };
}

/** Returns the verifier of the proxy, or `undefined` if the settings have no key for it. */
export function createDecider(
  { service, verifyKey }: Pick<ProxySettings, "service" | "verifyKey">,
  journal: Journal,
): Decider | undefined {
  if (service === undefined || verifyKey === undefined) return undefined;
  const guardSettings = { ...wordOf(service), apiKey: verifyKey };
  const { address, header, timeoutMs, agent } = readSettings(guardSettings);
  const lookUp = createLookUp(async (key) => {
    const call = { url: address(OWN_KEY_PATH), headers: { [header("api-key")]: key }, body: undefined };
    const answered = await exchange({ ...call, timeoutMs, agent });
    const own =
      answered.answered && answered.status === 200 ? readOwnKey(readObject(answered.body)) : undefined;
    if (own === undefined) throw new Error("the service did not name the verifier");
    return { ...own.verifier, connectionId: own.connectionId };
  });
  const onFault = ({ kind }: { kind: string }) => journal.note("fault", { kind });
  return { guard: createGuard({ ...guardSettings, onFault }), verifier: () => lookUp(verifyKey()) };
}

function createOwnAgent({ service, agentKey }: ProxySettings): Agent | undefined {
  if (service === undefined || agentKey === undefined) return undefined;
  return createAgent({ ...wordOf(service), apiKey: agentKey, verifiers: {} });
}

function wordOf({ baseUrl, word }: NonNullable<ProxySettings["service"]>) {
  return { baseUrl, ...(word !== undefined && { word }) };
}

/** Reminds once a minute that nothing is enforced. */
function remind(journal: Journal, mode: string): () => void {
  if (mode !== "observe") return () => undefined;
  const line = () => journal.note("observe: every call passes, and nothing is enforced");
  line();
  const timer = setInterval(line, REMINDER_MS).unref();
  return () => clearInterval(timer);
}

async function serveMetrics({ host, port }: Address, journal: Journal): Promise<() => void> {
  const server = createServer((request, response) => {
    const isKnown = request.method === "GET" && request.url === "/metrics";
    response.writeHead(isKnown ? 200 : 404, { "content-type": "text/plain; version=0.0.4" });
    response.end(isKnown ? journal.metrics() : "");
  });
  server.listen(port, host);
  await once(server, "listening").catch((error: NodeJS.ErrnoException) => {
    throw new SettingError(`${host}:${port}: cannot listen (${error.code})`, 78);
  });
  journal.note("metrics", { port: (server.address() as AddressInfo).port });
  return () => server.close();
}
