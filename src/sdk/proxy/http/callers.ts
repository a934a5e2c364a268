import { createHash } from "node:crypto";
import { type Agent, createAgent } from "../../agent/create_agent.ts";
import { exchange } from "../../service/exchange.ts";
import { OWN_KEY_PATH, readObject, readOwnKey } from "../../service/own_key.ts";
import { readSettings } from "../../settings.ts";

/** An agent whose key came with a request. `id` is the same for all requests with this key. */
export type Caller = { id: string; agent: Agent };

/** Finds the agent of a key. Returns why there is none: the key is wrong, or nobody can check it now. */
export type FindCaller = (key: string) => Promise<Caller | "unknown" | "unavailable">;

type Known = Caller & { checkedAt: number };

const KEY = /^dpza_[A-Za-z0-9_-]{20,120}$/;
/** A key that somebody has ended is refused for proofs immediately, and for lists after this time. */
const LONGEST_AGE_MS = 60_000;
const MOST_KNOWN = 1_000;
/**
 * Strangers can send any number of wrong keys. They must not use up the proxy's rate at the service. A wrong
 * key that an agent repeats counts once, so that it does not keep others out.
 */
const WRONG_KEYS_PER_MINUTE = 60;

/** Creates the finder. It asks the service about each key once a minute, and remembers only hashes. */
export function createCallers(service: { baseUrl: string; word?: string }): FindCaller {
  const known = new Map<string, Known>();
  const asking = new Map<string, ReturnType<FindCaller>>();
  let wrong = { since: performance.now(), keys: new Set<string>() };

  async function check(key: string): Promise<"known" | "unknown" | "unavailable"> {
    const { address, header, timeoutMs, agent } = readSettings({ ...service, apiKey: key });
    const headers = { [header("api-key")]: key };
    const answered = await exchange({
      url: address(OWN_KEY_PATH),
      headers,
      body: undefined,
      timeoutMs,
      agent,
    });
    if (!answered.answered) return "unavailable";
    if (answered.status === 401) return "unknown";
    const isOwn = answered.status === 200 && readOwnKey(readObject(answered.body))?.agentId !== undefined;
    return isOwn ? "known" : "unavailable";
  }

  /** Counts a new key as wrong until the service has answered, because many can arrive at the same time. */
  function count(id: string, now: number): "counted" | "unknown" | "unavailable" {
    if (now - wrong.since >= LONGEST_AGE_MS) wrong = { since: now, keys: new Set() };
    if (wrong.keys.has(id)) return "unknown";
    if (wrong.keys.size >= WRONG_KEYS_PER_MINUTE) return "unavailable";
    wrong.keys.add(id);
    return "counted";
  }

  const agentOf = (key: string) => createAgent({ ...service, apiKey: key, verifiers: {} });

  function remember(caller: Known): Caller {
    const [oldest] = known.keys();
    if (known.size >= MOST_KNOWN && oldest !== undefined) known.delete(oldest);
    known.set(caller.id, caller);
    return caller;
  }

  async function ask(key: string, id: string, now: number): Promise<Caller | "unknown" | "unavailable"> {
    const found = known.get(id);
    const counted = wrong;
    const result = await check(key);
    if (result !== "unknown") counted.keys.delete(id);
    if (result === "unavailable") return result;
    known.delete(id);
    if (result === "unknown") return result;
    return remember({ id, agent: found?.agent ?? agentOf(key), checkedAt: now });
  }

  return async (key) => {
    if (!KEY.test(key)) return "unknown";
    const id = createHash("sha256").update(key).digest("hex");
    const found = known.get(id);
    const now = performance.now();
    if (found !== undefined && now - found.checkedAt < LONGEST_AGE_MS) return found;
    const before = asking.get(id);
    if (before !== undefined) return before;
    const counted = found === undefined ? count(id, now) : "counted";
    if (counted !== "counted") return counted;
    const answer = ask(key, id, now).finally(() => asking.delete(id));
    asking.set(id, answer);
    return answer;
  };
}
