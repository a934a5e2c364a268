import { setTimeout as sleep } from "node:timers/promises";
import { VaultError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { connectToken, type TokenConnection } from "./connection.ts";
import { DamagedBox } from "./fault.ts";
import type { TokenAnswers, TokenInfo, TokenPlace, TokenRequest, Wrapped } from "./messages.ts";

const CALL_DEADLINE_MS = 5_000;
const OPEN_DEADLINE_MS = 20_000;
const FIRST_RESTART_DELAY_MS = 50;
const LAST_RESTART_DELAY_MS = 5_000;

/**
 * The PKCS#11 token as the rest of the vault sees it. Every call rejects with `VaultError token_unavailable` when the child that owns
 * the token is away, was killed, or does not answer within 5 s; the child is then started anew. A late or wrong answer is never given.
 */
export type Token = {
  /** Encrypts up to 4 KiB under the newest key-encryption key, bound to `context`. */
  wrap(plain: Uint8Array, context: Uint8Array): Promise<Wrapped>;
  /** The text wrapped under the same context. Rejects with `DamagedBox` when it was altered or belongs elsewhere. */
  unwrap(wrapped: Wrapped, context: Uint8Array): Promise<Uint8Array>;
  /** Chained HMAC-SHA256 under the audit key: mac[i] = HMAC(mac[i−1] ‖ texts[i]), with mac[−1] = `previous` (32 bytes). */
  chain(previous: Uint8Array, texts: Uint8Array[]): Promise<Uint8Array[]>;
  /** HMAC-SHA256 of each text under the audit key, never equal to a code of the chain: for what the database must not change. */
  authenticate(texts: Uint8Array[]): Promise<Uint8Array[]>;
  /**
   * The boxes anew under the newest key-encryption key; null for one that was altered or belongs elsewhere. What is in them never leaves
   * the child.
   */
  rewrap(boxes: { wrapped: Wrapped; context: Uint8Array }[]): Promise<(Wrapped | null)[]>;
  /** Generates the next version of the key-encryption key, which wraps from then on, and gives all versions. */
  rotate(): Promise<{ keks: string[] }>;
  /**
   * Destroys an older version of the key-encryption key in the token, for good, and gives those that are left. What is still wrapped under it
   * never opens again: only for a version that wraps nothing.
   */
  retire(kek: string): Promise<{ keks: string[] }>;
  /** Proves the token by a round trip through its newest key. */
  health(): Promise<{ keks: string[] }>;
  /** What the token said of itself when it was last opened. */
  info(): TokenInfo;
  /** Process id of the child, or undefined while there is none. */
  pid(): number | undefined;
  /** Ends the child. Calls in flight are rejected. */
  close(): Promise<void>;
};

/** What the child is started with: the token's place, the child's whole environment. */
export type TokenSettings = { place: TokenPlace; environment: Readonly<Record<string, string>> };

/**
 * Starts the child and opens the token. Rejects with a `TokenFault` that says what is wrong when the first opening fails; after that,
 * the child is started again whenever it ends, with delays growing from 50 ms to 5 s.
 */
export async function openToken({ place, environment }: TokenSettings, log: Logger): Promise<Token> {
  const closing = new AbortController();
  let current: TokenConnection | undefined;
  let info = await connect();
  const supervision = supervise();

  async function connect(): Promise<TokenInfo> {
    const connection = connectToken(environment, log);
    try {
      const opened = await connection.request({ kind: "open", ...place }, OPEN_DEADLINE_MS);
      current = connection;
      return opened;
    } catch (error) {
      connection.kill();
      await connection.ended;
      throw error;
    }
  }

  async function supervise(): Promise<void> {
    while (!closing.signal.aborted) {
      await current?.ended;
      current = undefined;
      if (closing.signal.aborted) return;
      log.error({ event: "token_lost" });
      await reconnect();
    }
  }

  async function reconnect(): Promise<void> {
    for (let delay = FIRST_RESTART_DELAY_MS; ; delay = Math.min(delay * 2, LAST_RESTART_DELAY_MS)) {
      try {
        await sleep(delay, undefined, { signal: closing.signal });
        info = await connect();
        log.info({ event: "token_restored" });
        return;
      } catch (error) {
        if (closing.signal.aborted) return;
        log.error({ event: "token_fault", reason: error instanceof Error ? error.message : "unknown" });
      }
    }
  }

  async function call<K extends TokenRequest["kind"]>(
    message: Extract<TokenRequest, { kind: K }>,
  ): Promise<TokenAnswers[K]> {
    if (current === undefined) throw new VaultError("token_unavailable");
    try {
      return await current.request(message, CALL_DEADLINE_MS);
    } catch (error) {
      if (error instanceof DamagedBox) throw error;
      throw new VaultError("token_unavailable", undefined, { cause: error });
    }
  }

  return {
    wrap: (plain, context) => call({ kind: "wrap", plain, context }),
    async unwrap(wrapped, context) {
      if (current !== undefined && !info.keks.includes(wrapped.kek))
        throw new VaultError(
          "token_unavailable",
          `The token has no ${wrapped.kek}, which a stored key needs`,
        );
      return call({ kind: "unwrap", wrapped, context });
    },
    chain: (previous, texts) => call({ kind: "chain", previous, texts }),
    authenticate: (texts) => call({ kind: "authenticate", texts }),
    rewrap: (boxes) => call({ kind: "rewrap", boxes }),
    async rotate() {
      const { keks } = await call({ kind: "rotate" });
      info = { ...info, keks };
      return { keks };
    },
    async retire(kek) {
      info = { ...info, keks: info.keks.filter((label) => label !== kek) };
      const { keks } = await call({ kind: "retire", kek });
      info = { ...info, keks };
      return { keks };
    },
    health: () => call({ kind: "health" }),
    info: () => info,
    pid: () => current?.pid,
    async close() {
      closing.abort();
      current?.kill();
      await supervision;
      current?.kill();
    },
  };
}
