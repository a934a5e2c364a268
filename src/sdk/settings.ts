import type { Agent } from "node:http";
import type { Verifier } from "./operation.ts";
import { type AcceptedPrincipals, type PrincipalsSetting, readPrincipals } from "./principals.ts";
import type { VerificationRecord } from "./record.ts";

/** What a guard is made with. */
export type GuardSettings = {
  /** Where the service is, with the path in front of `/v1/…` if there is one. */
  baseUrl: string | URL;
  /**
   * The connection's API key, or what gives the current one. It is asked for at each call and must answer
   * immediately.
   */
  apiKey: string | (() => string);
  /** The service's word in paths and header names. Default `service`. */
  word?: string;
  /**
   * For one whole exchange with verify, the reading of the answer included. Milliseconds, 10,000 by default.
   */
  timeoutMs?: number;
  /** Connections to the service: a `node:http` agent, or a `node:https` one with your certificates. */
  agent?: Agent;
  /** Needed for proofs that are bound to an operation. */
  verifier?: Verifier;
  /**
   * Whose authority is accepted, besides what the service itself accepts: root ids, or a function that is
   * asked after each allow. Nobody's when there is none in it. Left out: the service's rule alone holds.
   */
  principals?: PrincipalsSetting;
  /**
   * What an `allow` means that had been given for this invocation before. Default `refuse`, which runs
   * nothing twice. `execute` acts on what was decided then, also when the authority was withdrawn since.
   */
  replays?: "refuse" | "execute";
  /**
   * Keeps the record of each verification. Waited for before anything runs: what it throws refuses the action
   * with 503.
   */
  retain?: (record: VerificationRecord) => unknown;
  /** Told of what went wrong beside the decision. Must not throw. */
  onFault?: (fault: GuardFault) => void;
};

/**
 * Something that went wrong beside the service's decision: an outcome or a scope that it did not take, a
 * record not kept, no list of principals.
 */
export type GuardFault =
  | { kind: "outcome_not_reported"; invocationId: string; outcome: string; status: number | undefined }
  | { kind: "scope_not_accepted"; requiredScope: string }
  | { kind: "record_not_retained"; error: unknown }
  | { kind: "principals_not_read"; error: unknown };

/** Settings, checked and complete. */
export type ReadSettings = Required<
  Omit<GuardSettings, "baseUrl" | "apiKey" | "agent" | "verifier" | "principals">
> & {
  apiKey: () => string;
  agent: Agent | undefined;
  verifier: Verifier | undefined;
  principals: AcceptedPrincipals | undefined;
  /** Address of a path below `/v1/<word>/`. */
  address: (path: string) => URL;
  /** Lower-case name of a header of the service's. */
  header: (name: string) => string;
};

const DEFAULT_TIMEOUT_MS = 10_000;
const LONGEST_TIMEOUT_MS = 600_000;

/**
 * Checks settings. Throws TypeError for those that no guard can work with; the key is never part of its
 * message.
 */
export function readSettings(settings: GuardSettings): ReadSettings {
  const { apiKey, agent, verifier, word = "service", timeoutMs = DEFAULT_TIMEOUT_MS } = settings;
  const base = readBase(settings.baseUrl);
  demand(/^[a-z][a-z0-9]{0,31}$/.test(word), "word: lower-case letters and digits");
  const isTimeout = Number.isInteger(timeoutMs) && timeoutMs >= 1 && timeoutMs <= LONGEST_TIMEOUT_MS;
  demand(isTimeout, `timeoutMs: a whole number from 1 to ${LONGEST_TIMEOUT_MS}`);
  const isKey = typeof apiKey === "function" || (typeof apiKey === "string" && /^[\x21-\x7e]+$/.test(apiKey));
  demand(isKey, "apiKey: visible ASCII characters, or a function that gives them");
  if (verifier !== undefined) {
    demand(
      isText(verifier.verifierId) && isText(verifier.workspaceId),
      "verifier: two ids that are not empty",
    );
  }
  return {
    apiKey: typeof apiKey === "function" ? apiKey : () => apiKey,
    agent,
    verifier: verifier && { ...verifier },
    principals: readPrincipals(settings.principals),
    word,
    timeoutMs,
    replays: settings.replays ?? "refuse",
    retain: settings.retain ?? (() => undefined),
    onFault: settings.onFault ?? (() => undefined),
    address: (path) => new URL(`${base}/v1/${word}/${path}`),
    header: (name) => `x-${word}-${name}`,
  };
}

function readBase(baseUrl: string | URL): string {
  demand(URL.canParse(String(baseUrl)), "baseUrl: an absolute URL");
  const url = new URL(String(baseUrl));
  demand(url.protocol === "https:" || url.protocol === "http:", "baseUrl: https or http");
  demand(url.username === "" && url.password === "", "baseUrl: no user name or password");
  demand(url.search === "" && url.hash === "", "baseUrl: no query and no fragment");
  return url.href.replace(/\/+$/, "");
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

function demand(holds: boolean, message: string): void {
  if (!holds) throw new TypeError(message);
}
