import type { Verifier } from "../operation.ts";
import { WrongVerifier } from "./errors.ts";

/** A verifier in an agent's settings. Several connections of one account can share a name. */
export type AgentVerifier = Verifier & {
  /** The verifying connection, if several connections of the workspace have this name. */
  connectionId?: string;
};

/** The verifiers of an agent, by the address of the application: an origin, or an origin with a path. */
export type Verifiers = Readonly<Record<string, AgentVerifier | "own">>;

type Place = { origin: string; path: string; verifier: AgentVerifier | "own" };

/**
 * Creates a function that finds the verifier of a URL by the settings alone, never by an answer of a server.
 * The longest matching path wins. Throws TypeError for settings that are no addresses or verifiers. The
 * function throws `WrongVerifier` for an address without a verifier.
 */
export function readVerifiers(verifiers: Verifiers): (url: URL) => AgentVerifier | "own" {
  const places = Object.entries(verifiers).map(([address, verifier]) => placeOf(address, verifier));
  places.sort((one, other) => other.path.length - one.path.length);
  return (url) => {
    const found = places.find(({ origin, path }) => url.origin === origin && isBelow(url.pathname, path));
    if (found !== undefined) return found.verifier;
    throw new WrongVerifier("unknown_verifier", "The settings name no verifier for this address.");
  };
}

/** Throws `WrongVerifier` if a call expects another verifier than the settings name. */
export function checkExpected(expected: Verifier | undefined, found: Verifier): void {
  if (expected === undefined) return;
  if (expected.verifierId !== found.verifierId || expected.workspaceId !== found.workspaceId) {
    throw new WrongVerifier("other_verifier", "The settings name another verifier for this address.");
  }
}

function placeOf(address: string, verifier: unknown): Place {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== "" || url.hash !== "") {
    throw new TypeError("verifiers: each address must be an absolute URL without a query or fragment");
  }
  const path = url.pathname.replace(/\/+$/, "");
  if (verifier === "own") return { origin: url.origin, path, verifier };
  const { verifierId, workspaceId, connectionId } = Object(verifier) as Partial<AgentVerifier>;
  if (!isText(verifierId) || !isText(workspaceId) || (connectionId !== undefined && !isText(connectionId))) {
    throw new TypeError('verifiers: each value must be "own", or have verifierId and workspaceId');
  }
  const read = { verifierId, workspaceId, ...(connectionId !== undefined && { connectionId }) };
  return { origin: url.origin, path, verifier: read };
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** Compares whole segments: `/a/b` is below `/a`, and `/ab` is not. */
function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}
