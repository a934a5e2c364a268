import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { noRules, type ProxyRules, readRulesFile } from "./rules_file.ts";

/** The checked command line and environment of the proxy. */
export type ProxySettings = {
  /** The server's command. Empty over HTTP. */
  command: readonly string[];
  http: { listen: Address; upstream: URL; origins: readonly string[] } | undefined;
  rules: ProxyRules;
  rulesFile: string | undefined;
  /** Write the server's present tools to the rules file, and end. */
  accept: boolean;
  /** The address of the service, and functions that read the keys from their files. */
  service: { baseUrl: string; word: string | undefined } | undefined;
  agentKey: (() => string) | undefined;
  verifyKey: (() => string) | undefined;
  /** The address for metrics. */
  metrics: Address | undefined;
};

/** A host and a port to listen on. */
export type Address = { host: string; port: number };

/** A setting that must be changed first. Its message contains no secret. */
export class SettingError extends Error {
  override readonly name = "SettingError";
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

/** The exit statuses of a wrong command line and of a wrong setting, as all commands have them. */
const USAGE = 2;
const SETTING = 78;
const OURS = /^DEPUTIZE_/i;

export const HELP = `Usage: deputize mcp-proxy [options] -- <command of the MCP server> [arguments]
       deputize mcp-proxy [options] --listen <host:port> --upstream <url>

Runs in front of an MCP server, and lets its tools act only with a person's authority.

Options:
  --rules <file>         file with the server's rules; else DEPUTIZE_MCP_RULES
  --accept               write the server's present tools to the rules file, and exit
  --listen <host:port>   serve http://<host:port>/mcp; each agent sends its key as a bearer token
  --upstream <url>       the MCP server behind --listen
  --origin <origin>      a web page that may call the proxy; may be repeated
  --metrics <host:port>  serve metrics at http://<host:port>/metrics
  -h, --help             show this help

Environment: DEPUTIZE_URL, DEPUTIZE_AGENT_KEY_FILE, DEPUTIZE_VERIFY_KEY_FILE
`;

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads all settings. Throws `SettingError`. Returns `"help"` if the user asks for help. */
export function readProxySettings(args: readonly string[], env: Environment): ProxySettings | "help" {
  const { values, command } = parse(args);
  if (values.help === true) return "help";
  const http = httpOf(values);
  const isOne = command.length > 0 !== (http !== undefined);
  demand(isOne, "name the command of the server after --, or --listen and --upstream", USAGE);
  const rulesFile = values.rules ?? env.DEPUTIZE_MCP_RULES;
  const accept = values.accept === true;
  demand(!accept || rulesFile !== undefined, "--accept needs --rules <file>", USAGE);
  const rules = rulesFile === undefined ? noRules() : readRules(rulesFile, accept);
  const service = serviceOf(env);
  const agentKey = keyIn(env, "DEPUTIZE_AGENT_KEY_FILE", "dpza_");
  const verifyKey = keyIn(env, "DEPUTIZE_VERIFY_KEY_FILE", "dpzv_");
  demand(
    http === undefined || agentKey === undefined,
    "DEPUTIZE_AGENT_KEY_FILE: callers send their own keys",
  );
  if (!accept && rules.mode === "enforce") {
    demand(service !== undefined, "enforce needs DEPUTIZE_URL, the address of the service");
    demandKey(verifyKey, "DEPUTIZE_VERIFY_KEY_FILE", "verify");
    if (http === undefined) demandKey(agentKey, "DEPUTIZE_AGENT_KEY_FILE", "agent");
  }
  const metrics = values.metrics === undefined ? undefined : addressOf(values.metrics);
  return { command, http, rules, rulesFile, accept, service, agentKey, verifyKey, metrics };
}

/** Returns the environment without the settings of the proxy, which could name secrets. */
export function foreignEnvironment(env: Environment): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !OURS.test(name)));
}

function parse(args: readonly string[]) {
  const end = args.indexOf("--");
  const own = end === -1 ? args : args.slice(0, end);
  try {
    const { values } = parseArgs({
      args: [...own],
      options: {
        rules: { type: "string" },
        accept: { type: "boolean" },
        listen: { type: "string" },
        upstream: { type: "string" },
        origin: { type: "string", multiple: true },
        metrics: { type: "string" },
        help: { type: "boolean", short: "h" },
      },
    });
    return { values, command: end === -1 ? [] : args.slice(end + 1) };
  } catch (error) {
    throw new SettingError(error instanceof Error ? error.message : String(error), USAGE);
  }
}

type HttpValues = {
  listen?: string | undefined;
  upstream?: string | undefined;
  origin?: string[] | undefined;
};

function httpOf({ listen, upstream, origin = [] }: HttpValues): ProxySettings["http"] {
  if (listen === undefined && upstream === undefined) return undefined;
  demand(listen !== undefined && upstream !== undefined, "--listen and --upstream belong together", USAGE);
  demand(
    /^https?:/.test(upstream) && URL.canParse(upstream),
    "--upstream: must be an http or https URL",
    USAGE,
  );
  return { listen: addressOf(listen), upstream: new URL(upstream), origins: origin };
}

function readRules(file: string, accept: boolean): ProxyRules {
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (accept && code === "ENOENT") return noRules();
    throw new SettingError(`${file}: cannot be read (${code}). Create it with --accept`, SETTING);
  }
  try {
    return readRulesFile(bytes);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new SettingError(`${file}: ${error.message}`, SETTING);
  }
}

function serviceOf({ DEPUTIZE_URL: baseUrl, DEPUTIZE_WORD: word }: Environment) {
  if (baseUrl === undefined || baseUrl === "") return undefined;
  demand(/^https?:/.test(baseUrl) && URL.canParse(baseUrl), "DEPUTIZE_URL: must be an http or https URL");
  return { baseUrl, word };
}

/** Returns a function that reads a key for each use, so that the key can be replaced. */
function keyIn(env: Environment, name: string, prefix: string): (() => string) | undefined {
  const file = env[name];
  if (file === undefined || file === "") return undefined;
  const read = () => readFileSync(file, "utf8").trim();
  let key: string;
  try {
    key = read();
  } catch (error) {
    throw new SettingError(`${name}: cannot be read (${(error as NodeJS.ErrnoException).code})`, SETTING);
  }
  demand(key.startsWith(prefix), `${name}: must contain a key that begins with ${prefix}`);
  return read;
}

/** The proxy needs two keys: no narrow key can make proofs and have them verified. */
function demandKey(key: unknown, name: string, role: string): void {
  const where = "Create the key on the connection's page in the console";
  demand(key !== undefined, `enforce needs ${name}, the path of a file with one ${role} key. ${where}`);
}

function addressOf(text: string): Address {
  const [, host, port] = /^\[?([^\]]+?)\]?:(\d{1,5})$/.exec(text) ?? [];
  demand(host !== undefined && Number(port) <= 65_535, `${text}: must be <host:port>`, USAGE);
  return { host, port: Number(port) };
}

function demand(holds: boolean, message: string, status = SETTING): asserts holds {
  if (!holds) throw new SettingError(message, status);
}
