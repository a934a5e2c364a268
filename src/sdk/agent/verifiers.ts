import { decodeFully } from "../../protocol/constraints/resource_path.ts";
import type { Verifier } from "../operation.ts";
import { demand, demandKnown, type Known } from "../settings.ts";
import { WrongVerifier } from "./errors.ts";

/** A verifier in an agent's settings. Several connections of one account can share a name. */
export type AgentVerifier = Verifier & {
  /** The verifying connection, if several connections of the workspace have this name. */
  connectionId?: string | undefined;
};

/**
 * The verifiers of an agent, by the address of the application: an origin, an origin with a path, or
 * `mcp:<server>` for an MCP server.
 */
export type Verifiers = Readonly<Record<string, AgentVerifier | "own">>;

/** The members of a verifier. */
const VERIFIER = {
  verifierId: true,
  workspaceId: true,
  connectionId: true,
} as const satisfies Known<AgentVerifier>;

type Place = { origin: string; path: string; folder: string; verifier: AgentVerifier | "own" };

/**
 * Creates a function that finds the verifier of a URL by the settings alone, never by an answer of a server.
 * The longest matching path wins. Throws TypeError for settings that are no addresses or verifiers. The
 * function throws `WrongVerifier` for an address without a verifier, and for a path that some servers read as
 * the path of another verifier.
 */
export function readVerifiers(verifiers: Verifiers): (url: URL) => AgentVerifier | "own" {
  const isObject = typeof verifiers === "object" && verifiers !== null && !Array.isArray(verifiers);
  demand(isObject, 'verifiers: must be an object with the verifier of each address, such as "own"');
  const places = Object.entries(verifiers).map(([address, verifier]) => placeOf(address, verifier));
  places.sort((one, other) => other.path.length - one.path.length);
  return (url) => {
    const near = places.filter(({ origin }) => url.origin === origin);
    const found = near.find(({ path }) => isBelow(url.pathname, path));
    if (found === undefined) {
      throw new WrongVerifier("unknown_verifier", "The settings name no verifier for this address.");
    }
    const path = looselyRead(url.pathname);
    const others = near.filter(({ folder }) => isBelow(path, folder) && folder.length >= found.folder.length);
    if (others.some(({ verifier }) => !isSame(verifier, found.verifier))) {
      throw new WrongVerifier("ambiguous_address", "Servers can read this path as another verifier's.");
    }
    return found.verifier;
  };
}

/** Throws `WrongVerifier` if a call expects another verifier than the settings name. */
export function checkExpected(expected: AgentVerifier | undefined, found: AgentVerifier): void {
  if (expected === undefined) return;
  const { verifierId, workspaceId, connectionId = found.connectionId } = expected;
  if (!isSame({ verifierId, workspaceId, connectionId }, found)) {
    throw new WrongVerifier("other_verifier", "The settings name another verifier for this address.");
  }
}

function placeOf(address: string, verifier: unknown): Place {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  const others = url && [url.search, url.hash, url.username, url.password].join("");
  const isServer = /^mcp:[A-Za-z0-9][\w.-]*$/.test(address);
  if (url === undefined || (!isServer && !/^https?:$/.test(url.protocol)) || others !== "") {
    throw new TypeError(
      "verifiers: each address must be an absolute URL without query, fragment or password, or mcp:<server>",
    );
  }
  const path = url.pathname.replace(/\/+$/, "");
  return { origin: url.origin, path, folder: looselyRead(path), verifier: readVerifier(verifier) };
}

/** Copies a verifier. Throws TypeError if it is none. `name` is the setting or option that contains it. */
export function readVerifier(verifier: unknown, name = "verifiers"): AgentVerifier | "own" {
  if (verifier === "own") return verifier;
  if (typeof verifier === "object") demandKnown(name, verifier, VERIFIER);
  const { verifierId, workspaceId, connectionId } = Object(verifier) as Partial<AgentVerifier>;
  if (!isText(verifierId) || !isText(workspaceId) || (connectionId !== undefined && !isText(connectionId))) {
    throw new TypeError(`${name}: a verifier must be "own", or have verifierId and workspaceId`);
  }
  return { verifierId, workspaceId, ...(connectionId !== undefined && { connectionId }) };
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** Compares whole segments: `/a/b` is below `/a`, and `/ab` is not. */
function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

/** Returns a path as a tolerant server can read it: decoded, in lower case, without parameters or `//`. */
function looselyRead(path: string): string {
  const text = Buffer.from(decodeFully(path), "latin1").toString("utf8").normalize("NFKC");
  const segments = text.toUpperCase().toLowerCase().split(/[/\\]/);
  const names = segments.map((segment) => segment.split(/[;?#]/, 1)[0]).filter((name) => name !== "");
  return names.map((name) => `/${name}`).join("");
}

function isSame(one: AgentVerifier | "own", other: AgentVerifier | "own"): boolean {
  if (one === "own" || other === "own") return one === other;
  const names = ["verifierId", "workspaceId", "connectionId"] as const;
  return names.every((name) => one[name] === other[name]);
}
