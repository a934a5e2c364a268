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
/** Strangers can send any number of wrong keys. They must not use up the proxy's rate at the service. */
const WRONG_KEYS_PER_MINUTE = 60;

/** Creates the finder. It asks the service about each key once a minute, and remembers only hashes. */
export function createCallers(service: { baseUrl: string; word?: string }): FindCaller {
  const known = new Map<string, Known>();
  let wrong = { since: performance.now(), keys: 0 };

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

  function mayAsk(now: number): boolean {
    if (now - wrong.since >= LONGEST_AGE_MS) wrong = { since: now, keys: 0 };
    return wrong.keys < WRONG_KEYS_PER_MINUTE;
  }

  const agentOf = (key: string) => createAgent({ ...service, apiKey: key, verifiers: {} });

  function remember(caller: Known): Caller {
    const [oldest] = known.keys();
    if (known.size >= MOST_KNOWN && oldest !== undefined) known.delete(oldest);
    known.set(caller.id, caller);
    return caller;
  }

  return async (key) => {
    if (!KEY.test(key)) return "unknown";
    const id = createHash("sha256").update(key).digest("hex");
    const found = known.get(id);
    const now = performance.now();
    if (found !== undefined && now - found.checkedAt < LONGEST_AGE_MS) return found;
    if (found === undefined && !mayAsk(now)) return "unavailable";
    const result = await check(key);
    known.delete(id);
    if (result === "known") return remember({ id, agent: found?.agent ?? agentOf(key), checkedAt: now });
    if (result === "unknown") wrong.keys += 1;
    return result;
  };
}
