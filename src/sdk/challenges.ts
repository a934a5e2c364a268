import { exchange } from "./service/exchange.ts";
import type { ReadSettings } from "./settings.ts";

/** A challenge of the guard's own connection. Only this connection can verify a proof over it, once. */
export type Challenge = { readonly challenge: string; readonly expires_at: string };

/** Longest wait in milliseconds. A refusal must not take much longer than one without a challenge. */
const LONGEST_MS = 3_000;
const WINDOW_MS = 1_000;
/** Part of the limit that one network may use, so that no stranger uses up the challenges of others. */
const SHARE = 0.25;

/**
 * Creates a function that gets a challenge from the service with the guard's API key. It resolves to
 * `undefined` beyond the limit of challenges a second, and if the service returns none. It never rejects.
 * `address` is the client's IP address.
 */
export function createChallenges(
  settings: Pick<ReadSettings, "challengesPerSecond" | "address" | "header" | "agent" | "timeoutMs">,
  keyOf: () => string | undefined,
): (address?: string) => Promise<Challenge | undefined> {
  const limit = createLimit(settings.challengesPerSecond);
  return async (address = "") => {
    const key = keyOf();
    if (key === undefined || !limit(networkOf(address))) return undefined;
    const answered = await exchange({
      url: settings.address("challenge"),
      headers: { [settings.header("api-key")]: key },
      body: "",
      agent: settings.agent,
      timeoutMs: Math.min(settings.timeoutMs, LONGEST_MS),
    });
    return answered.answered && answered.status === 200 ? readChallenge(answered.body) : undefined;
  };
}

/** Counts per second, for all clients and for each network. Forgets all networks with each second. */
function createLimit(perSecond: number): (network: string) => boolean {
  const perNetwork = Math.ceil(perSecond * SHARE);
  const taken = new Map<string, number>();
  let [began, total] = [0, 0];
  return (network) => {
    const now = performance.now();
    if (now - began >= WINDOW_MS) {
      taken.clear();
      [began, total] = [now, 0];
    }
    const own = taken.get(network) ?? 0;
    if (total >= perSecond || own >= perNetwork) return false;
    taken.set(network, own + 1);
    total += 1;
    return true;
  };
}

/** Returns an IPv4 address, or the first 64 bits of an IPv6 address, of which one client has all others. */
function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, "");
  if (!plain.includes(":")) return plain;
  const [left = [], right = []] = plain.split("::").map((part) => part.split(":").filter(Boolean));
  const zeros = Array<string>(Math.max(0, 8 - left.length - right.length)).fill("0");
  return [...left, ...zeros, ...right].slice(0, 4).join(":");
}

function readChallenge(body: Buffer): Challenge | undefined {
  try {
    const { challenge, expires_at } = Object(JSON.parse(body.toString("utf8"))) as Record<string, unknown>;
    if (typeof challenge !== "string" || typeof expires_at !== "string") return undefined;
    return Object.freeze({ challenge, expires_at });
  } catch {
    return undefined;
  }
}
