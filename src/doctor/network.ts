import { lookup, Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import { within } from "../clock.ts";
import { codesOf, networkFault, reach } from "../input/network_fault.ts";
import { createAddressPolicy, createResolve } from "../webhooks/callback_address.ts";
import { type Check, check, type Finding, failed, ok, skipped } from "./check.ts";
import type { Settings } from "./settings.ts";

/**
 * `egress` is a public host to which the worker should be able to connect, or `undefined` to check none.
 * `proxies` are the proxy variables of the environment. In tests, `servers` replaces the name servers.
 */
export type NetworkOptions = {
  egress: { host: string; port: number } | undefined;
  proxies: readonly string[];
  servers?: string[];
};

/** Returns the checks of the name servers, and of connections to public addresses. */
export function networkChecks(options: NetworkOptions): Check[] {
  return [
    check("name servers", [], async (settings) => judgeNames(namesOf(settings, options), options.servers)),
    check("callback egress", [], async (settings) => checkEgress(settings, options)),
  ];
}

const QUERY_MS = 3_000;
const LOOK_UP_MS = 6_000;
/** Milliseconds from which a name server slows down every delivery and connection. */
const SLOW_MS = 2_000;

const URLS = ["DATABASE_URL", "VAULT_URL", "SMTP_URL", "OPERATOR_API_URL", "API_URL"] as const;

/** The host names in the settings, and that of the egress. */
function namesOf(settings: Settings, { egress }: NetworkOptions): string[] {
  const hosts = URLS.flatMap((name) => URL.parse(settings[name] ?? "")?.hostname ?? []);
  const brokers = (settings.KAFKA_BROKERS ?? []).map((broker) => broker.replace(/:\d+$/, ""));
  const all = [...hosts, ...brokers, ...(egress === undefined ? [] : [egress.host])];
  const names = all.filter((host) => host !== "" && host !== "localhost" && isIP(bare(host)) === 0);
  return [...new Set(names)];
}

function bare(host: string): string {
  return host.replace(/^\[|\]$/g, "");
}

type Answer = { family: "A" | "AAAA"; ms: number; isAnswered: boolean; hasAddress: boolean };

async function judgeNames(names: readonly string[], servers: string[] | undefined): Promise<Finding> {
  if (names.length === 0) return skipped("no setting contains a host name");
  const asked = await Promise.all(names.map((name) => askAbout(name, servers)));
  const fault = asked.map(faultOf).find((found) => found !== undefined);
  if (fault !== undefined) return fault;
  const slowest = Math.max(...asked.flatMap(({ answers }) => answers.map(({ ms }) => ms)));
  return ok(`A and AAAA queries for ${asked.length} names are answered within ${Math.ceil(slowest)} ms`);
}

/** `lookUp` is how the roles find their servers: with the machine's search domains and hosts file. */
type Asked = { name: string; answers: Answer[]; lookUp: { isFound: boolean; ms: number } };

async function askAbout(name: string, servers: string[] | undefined): Promise<Asked> {
  const [four, six, lookUp] = await Promise.all([
    ask("A", name, servers),
    ask("AAAA", name, servers),
    servers === undefined ? timed(lookup(name, { all: true })) : { isFound: false, ms: 0 },
  ]);
  return { name, answers: [four, six], lookUp };
}

function faultOf({ name, answers, lookUp }: Asked): Finding | undefined {
  const silent = answers.filter(({ isAnswered }) => !isAnswered).map(({ family }) => family);
  // Only the search domains may complete a short name, so two failed queries alone mean nothing.
  if (silent.length === 2 && !lookUp.isFound) {
    return failed(`no name server answers for ${name}`, NO_SERVER);
  }
  if (silent.length === 1) {
    return failed(
      `the name server never answers ${silent[0]} queries for ${name}`,
      "Let the name server, or its forwarder, answer both A and AAAA queries.",
    );
  }
  const ms = silent.length === 2 ? lookUp.ms : Math.max(lookUp.ms, ...answers.map((answer) => answer.ms));
  if (ms <= SLOW_MS) return undefined;
  const action = "Use a faster name server, or a cache on the node.";
  return failed(`finding the addresses of ${name} takes ${(ms / 1000).toFixed(1)} s`, action);
}

const NO_SERVER =
  "Check /etc/resolv.conf, the name server, and that NetworkPolicies allow port 53 (UDP and TCP).";

/** Waits a limited time, because the system's look-up cannot be canceled. */
async function timed(work: Promise<unknown>): Promise<Asked["lookUp"]> {
  const begun = performance.now();
  const found = work.then(
    () => true,
    () => false,
  );
  const isFound = await within(LOOK_UP_MS, found, false);
  return { isFound, ms: performance.now() - begun };
}

/** An answer without an address is an answer too. */
async function ask(family: "A" | "AAAA", name: string, servers: string[] | undefined): Promise<Answer> {
  const resolver = new Resolver({ timeout: QUERY_MS, tries: 1 });
  if (servers !== undefined) resolver.setServers(servers);
  const begun = performance.now();
  const limit = setTimeout(() => resolver.cancel(), QUERY_MS);
  try {
    const found = await (family === "A" ? resolver.resolve4(name) : resolver.resolve6(name));
    return { family, ms: performance.now() - begun, isAnswered: true, hasAddress: found.length > 0 };
  } catch (error) {
    const isAnswered = codesOf(error).some((code) => code === "ENOTFOUND" || code === "ENODATA");
    return { family, ms: performance.now() - begun, isAnswered, hasAddress: false };
  } finally {
    clearTimeout(limit);
  }
}

const CONNECT_MS = 4_000;

/** Connects like the worker: to the addresses that the callback policy allows, without a proxy. */
async function checkEgress(
  settings: Settings,
  { egress, proxies, servers }: NetworkOptions,
): Promise<Finding> {
  if (egress === undefined) {
    return skipped(
      "no public host is named",
      "To check it, name a host that your callbacks may use: --egress <host:port>.",
    );
  }
  const { host, port } = egress;
  const place = `${host}:${port}`;
  const policy = createAddressPolicy({
    development: settings.DEVELOPMENT ?? false,
    allowedCidrs: settings.WEBHOOK_ALLOWED_CIDRS ?? [],
  });
  let addresses: string[];
  try {
    const within = AbortSignal.timeout(QUERY_MS);
    addresses = isIP(bare(host)) === 0 ? await createResolve(servers)(host, within) : [bare(host)];
  } catch (error) {
    const { what, action } = networkFault(error) ?? {
      what: "the name cannot be resolved",
      action: NAME_SERVER,
    };
    return failed(`${place}: ${what}`, action);
  }
  const forbidden = addresses.find((address) => !policy.allows(address));
  if (forbidden !== undefined) {
    return failed(
      `${place} has the address ${forbidden}, to which callbacks may not connect`,
      "If callbacks may lead to this private network, add it to WEBHOOK_ALLOWED_CIDRS.",
    );
  }
  const tried = await Promise.all(
    addresses.slice(0, MOST_ADDRESSES).map((address) => tryAddress(address, port)),
  );
  const open = tried.filter(({ error }) => error === undefined).map(({ address }) => address);
  const closed = tried.filter(({ error }) => error !== undefined);
  if (open.length > 0) {
    const rest = closed.length === 0 ? "" : `, but not at ${closed.map(({ address }) => address).join(", ")}`;
    return ok(`${place} can be reached directly at ${open.join(", ")}${rest}`);
  }
  const proxy = proxies.length === 0 ? "" : `; callbacks never use ${proxies.join(" and ")}`;
  return failed(
    `${place}: ${networkFault(closed[0]?.error)?.what ?? "no connection"}${proxy}`,
    "Allow direct connections from the worker to public addresses: network.peers.callbacks, firewalls, NAT.",
  );
}

const NAME_SERVER = "Check that the name server resolves public names.";
const MOST_ADDRESSES = 4;

async function tryAddress(address: string, port: number): Promise<{ address: string; error?: unknown }> {
  try {
    await reach(address, port, AbortSignal.timeout(CONNECT_MS));
    return { address };
  } catch (error) {
    return { address, error };
  }
}
