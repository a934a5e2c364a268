import type { Agent } from "node:http";
import { type GuardFault, warnOnce } from "./faults.ts";
import type { Verifier } from "./operation.ts";
import { type AcceptedPrincipals, type PrincipalsSetting, readPrincipals } from "./principals.ts";
import type { VerificationRecord } from "./record.ts";

/** Settings of a guard. */
export type GuardSettings = {
  /** Base URL of the service, including any path in front of `/v1/…`. */
  baseUrl: string | URL;
  /** The connection's API key, or a synchronous function that returns it for each request. */
  apiKey: string | (() => string);
  /** The service name, which replaces `service` in paths and header names. Defaults to `service`. */
  word?: string;
  /** Milliseconds for one complete exchange with verify. Defaults to 10,000. */
  timeoutMs?: number;
  /** The HTTP agent for the service, from `node:http`, or from `node:https` with your certificates. */
  agent?: Agent;
  /** The identity of this verifier. By default, the service returns it for the API key. */
  verifier?: Verifier;
  /**
   * Root ids of the principals whose authority is accepted, in addition to the service's own rules. May be a
   * function that the guard calls after each `allow` decision. An empty list accepts nobody. If absent, only
   * the service's rules apply.
   */
  principals?: PrincipalsSetting;
  /**
   * How to treat an `allow` decision that the service had already returned for this invocation. The default,
   * `refuse`, runs no invocation twice. `execute` acts on the earlier decision, even if the authority was
   * withdrawn since.
   */
  replays?: "refuse" | "execute";
  /**
   * Challenges that refused callers may get each second, at most a quarter of them in one network. Each costs
   * a call to the service. Default 40; 0 gives no challenges.
   */
  challengesPerSecond?: number;
  /**
   * Stores the record of each verification. The guard waits for it before the action runs. If it throws, the
   * guard refuses the action with 503.
   */
  retain?: (record: VerificationRecord) => unknown;
  /**
   * Called for each {@link GuardFault}. Must not throw. By default, the guard writes the first fault of each
   * kind to `console.warn`, without secrets.
   */
  onFault?: (fault: GuardFault) => void;
};

/** Checked settings, in which all defaults are filled in. */
export type ReadSettings = Required<
  Omit<GuardSettings, "baseUrl" | "apiKey" | "agent" | "verifier" | "principals">
> & {
  apiKey: () => string;
  agent: Agent | undefined;
  verifier: Verifier | undefined;
  principals: AcceptedPrincipals | undefined;
  address: (path: string) => URL;
  header: (name: string) => string;
};

const DEFAULT_TIMEOUT_MS = 10_000;
const LONGEST_TIMEOUT_MS = 600_000;
const CHALLENGES_PER_SECOND = 40;
const MOST_CHALLENGES = 10_000;

const KNOWN: Known<GuardSettings> = {
  ...{ baseUrl: true, apiKey: true, word: true, timeoutMs: true, agent: true, verifier: true },
  ...{ principals: true, replays: true, challengesPerSecond: true, retain: true, onFault: true },
};

/** Checks a guard's settings as {@link readSettings}, and throws TypeError for an unknown setting. */
export function readGuardSettings(settings: GuardSettings): ReadSettings {
  demandKnown("settings", settings, KNOWN);
  return readSettings(settings);
}

/** Checks settings. Throws TypeError if they are invalid. The message never contains the key. */
export function readSettings(settings: GuardSettings): ReadSettings {
  const { apiKey, agent, verifier, word = "service", timeoutMs = DEFAULT_TIMEOUT_MS } = settings;
  const base = readBase(settings.baseUrl);
  demand(/^[a-z][a-z0-9]{0,31}$/.test(word), "word: must be lower-case letters and digits, a letter first");
  const isTimeout = Number.isInteger(timeoutMs) && timeoutMs >= 1 && timeoutMs <= LONGEST_TIMEOUT_MS;
  demand(isTimeout, `timeoutMs: must be a whole number from 1 to ${LONGEST_TIMEOUT_MS}`);
  const isKey = typeof apiKey === "function" || (typeof apiKey === "string" && /^[\x21-\x7e]+$/.test(apiKey));
  demand(isKey, "apiKey: must be visible ASCII characters, or a function that returns them");
  const { challengesPerSecond = CHALLENGES_PER_SECOND } = settings;
  const isLimit =
    Number.isInteger(challengesPerSecond) &&
    challengesPerSecond >= 0 &&
    challengesPerSecond <= MOST_CHALLENGES;
  demand(isLimit, `challengesPerSecond: must be a whole number from 0 to ${MOST_CHALLENGES}`);
  if (verifier !== undefined) {
    demandKnown("verifier", verifier, { verifierId: true, workspaceId: true });
    demand(
      isText(verifier.verifierId) && isText(verifier.workspaceId),
      "verifier: needs verifierId and workspaceId, both not empty",
    );
  }
  const { replays = "refuse" } = settings;
  demand(["refuse", "execute"].includes(replays), "replays: must be refuse or execute");
  demandFunction("retain", settings.retain);
  demandFunction("onFault", settings.onFault);
  return {
    apiKey: typeof apiKey === "function" ? apiKey : () => apiKey,
    agent,
    verifier: verifier && { ...verifier },
    principals: readPrincipals(settings.principals),
    word,
    timeoutMs,
    challengesPerSecond,
    replays,
    retain: settings.retain ?? (() => undefined),
    onFault: settings.onFault ?? warnOnce(),
    address: (path) => new URL(`${base}/v1/${word}/${path}`),
    header: (name) => `x-${word}-${name}`,
  };
}

function readBase(baseUrl: string | URL): string {
  demand(URL.canParse(String(baseUrl)), "baseUrl: must be an absolute URL");
  const url = new URL(String(baseUrl));
  demand(url.protocol === "https:" || url.protocol === "http:", "baseUrl: must start with https or http");
  demand(url.username === "" && url.password === "", "baseUrl: must not contain a user name or password");
  demand(url.search === "" && url.hash === "", "baseUrl: must not contain a query or fragment");
  const base = url.href.replace(/\/+$/, "");
  demand(!base.endsWith("/v1"), "baseUrl: leave out /v1 at its end, because the guard and the agent add it");
  return base;
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

/** The names of all settings of a type. */
export type Known<T> = Readonly<Record<keyof T, true>>;

/** Throws TypeError unless `given` is an object with known members only. */
export function demandKnown<T>(name: string, given: unknown, known: Known<T>): void {
  const names = Object.keys(known).join(", ");
  const isObject = typeof given === "object" && given !== null && !Array.isArray(given);
  demand(isObject, `${name}: must be an object. Its members can be: ${names}`);
  const unknown = Object.keys(given as object).filter((key) => !Object.hasOwn(known, key));
  demand(unknown.length === 0, `${name}: unknown member ${unknown.join(", ")}. Known are: ${names}`);
}

/** Throws TypeError unless a setting is absent or a function. */
export function demandFunction(name: string, given: unknown): void {
  demand(given === undefined || typeof given === "function", `${name}: must be a function`);
}

/** Throws TypeError with `message` unless the condition holds. */
export function demand(holds: boolean, message: string): asserts holds {
  if (!holds) throw new TypeError(message);
}
