import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { reasonOf, VaultError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { applyMask, chunksOf, createMask } from "./frames.ts";
import { openTokenLink, type TokenLink } from "./link.ts";
import {
  DamagedBox,
  type NotedHead,
  StaleOffer,
  type TokenAnswers,
  TokenError,
  type TokenInfo,
  type TokenPlace,
  type TokenRequest,
  type Wrapped,
  WrongPin,
} from "./messages.ts";

const CALL_DEADLINE_MS = 5_000;
const OPEN_DEADLINE_MS = 20_000;
const FIRST_RESTART_DELAY_MS = 50;
const LAST_RESTART_DELAY_MS = 5_000;

/**
 * The PKCS#11 token as the rest of the vault uses it. Every call rejects with `VaultError token_unavailable`
 * if the child that owns the token is not running, was killed, or does not answer within 5 s. The child is
 * then restarted. Never returns a late answer, or the answer to another call. While the token is sealed,
 * every call rejects with `VaultError sealed`.
 */
export type Token = {
  /** Encrypts up to 4 KiB under the newest key-encryption key, bound to `context`. */
  wrap(plain: Uint8Array, context: Uint8Array): Promise<Wrapped>;
  /**
   * Decrypts a text that was wrapped under the same context. Rejects with `DamagedBox` if the text was
   * altered, belongs to another context, or names a version that the token lacks.
   */
  unwrap(wrapped: Wrapped, context: Uint8Array): Promise<Uint8Array>;
  /**
   * Returns codes under the audit key: `mac[i]` = HMAC-SHA256(`mac[i−1]` ‖ `texts[i]`). `mac[−1]` is
   * `previous`.
   */
  chain(previous: Uint8Array, texts: Uint8Array[]): Promise<Uint8Array[]>;
  /** Returns HMAC-SHA256 of each text under the audit key. These codes never equal those of the chain. */
  authenticate(texts: Uint8Array[]): Promise<Uint8Array[]>;
  /**
   * Wraps the boxes again under the newest key-encryption key. Returns null for a damaged box. The plaintext
   * never leaves the child.
   */
  rewrap(boxes: { wrapped: Wrapped; context: Uint8Array }[]): Promise<(Wrapped | null)[]>;
  /**
   * Returns for each box the version of the key-encryption key that opens it, whatever version the box names.
   * Null means that no version opens the box. The plaintext never leaves the child.
   */
  findVersions(boxes: { wrapped: Wrapped; context: Uint8Array }[]): Promise<(string | null)[]>;
  /**
   * Generates the next version of the key-encryption key, which then wraps new data. Returns all versions.
   */
  rotate(): Promise<{ keks: string[] }>;
  /**
   * Permanently destroys an older version of the key-encryption key in the token. Returns the remaining
   * versions. Data that the destroyed version wraps never opens again.
   */
  retire(kek: string): Promise<{ keks: string[] }>;
  /** Returns the head of the audit chain with the highest number that the token has noted, or null. */
  notedHead(): Promise<{ head: NotedHead | null }>;
  /** Notes a head, unless a head with a higher number is noted. With `replaceAll`, replaces every head. */
  noteHead(head: NotedHead, replaceAll?: boolean): Promise<unknown>;
  /** Checks the token by encrypting and decrypting under its newest key-encryption key. */
  health(): Promise<{ keks: string[] }>;
  /** Returns the token's description as of its last opening. Throws `VaultError sealed` if there was none. */
  info(): TokenInfo;
  /** Returns why the token is sealed, or `undefined` while it is open. */
  sealed(): SealReason | undefined;
  /** Seals the token immediately: kills the logged-in child and starts one that waits for the PIN. */
  seal(reason: SealReason): void;
  /** Calls `listener` immediately each time the token is sealed, for any reason. */
  whenSealed(listener: (reason: SealReason) => void): void;
  /**
   * Returns the one-time key of the child that waits for the PIN. Throws `token_unavailable` if none waits.
   */
  offer(): Uint8Array;
  /**
   * Opens a sealed token with a PIN encrypted to the offer. This process passes the PIN on and cannot read
   * it. Rejects with `WrongPin`, with `StaleOffer` if the PIN was encrypted to another offer, or with
   * `VaultError token_unavailable`. The offer cannot be used again in any of these cases.
   */
  unseal(box: Uint8Array): Promise<TokenInfo>;
  /** Returns the process id of the child, or `undefined` if none runs. */
  pid(): number | undefined;
  /** Stops the child. Running calls reject. */
  close(): Promise<void>;
};

/** Start options of the child: the token's location, and the child's complete environment. */
export type TokenSettings = { place: TokenPlace; environment: Readonly<Record<string, string>> };

/**
 * Reason why a token is sealed: no PIN file at startup, a request by an admin, or an exit of the token's
 * process without a PIN file. `chain_broken` means that the audit chain differs from what the vault wrote.
 */
export type SealReason = "no_pin_file" | "asked" | "process_ended" | "chain_broken";

/** How to treat a token without a PIN file: as a fault, or as sealed. */
export type WithoutPin = "refuse" | "seal";

/**
 * Starts the child and opens the token. Rejects with a `TokenError` if the first opening fails. After that,
 * restarts the child whenever it exits, with delays that grow from 50 ms to 5 s. With `seal`, the token is
 * sealed if its PIN file is missing when the child starts.
 */
export async function openToken(
  { place, environment }: TokenSettings,
  log: Logger,
  withoutPin: WithoutPin = "refuse",
): Promise<Token> {
  const closing = new AbortController();
  const listeners: ((reason: SealReason) => void)[] = [];
  const lacksPin = (): boolean => withoutPin === "seal" && !existsSync(place.pinFile);
  let sealed: SealReason | undefined = lacksPin() ? "no_pin_file" : undefined;
  let current: TokenLink | undefined;
  let offer: Uint8Array | undefined;
  let info: TokenInfo | undefined;
  await connect();
  const supervision = supervise();

  function becomeSealed(reason: SealReason): void {
    if (sealed !== undefined) return;
    sealed = reason;
    log.warn({ event: "sealed", reason });
    for (const listener of listeners) listener(reason);
  }

  async function connect(): Promise<void> {
    const waits = sealed !== undefined;
    const link = openTokenLink(environment, log);
    try {
      if (waits) {
        offer = (await link.request({ kind: "offer" }, OPEN_DEADLINE_MS)).publicKey;
      } else {
        info = await link.request({ kind: "open", ...place }, OPEN_DEADLINE_MS);
      }
      if (waits !== (sealed !== undefined)) throw new TokenError("The token was sealed meanwhile");
      current = link;
    } catch (error) {
      link.kill();
      await link.ended;
      throw error;
    }
  }

  async function supervise(): Promise<void> {
    while (!closing.signal.aborted) {
      await current?.ended;
      current = offer = undefined;
      if (closing.signal.aborted) return;
      if (sealed === undefined) log.error({ event: "token_lost" });
      await reconnect();
    }
  }

  async function reconnect(): Promise<void> {
    for (let delay = FIRST_RESTART_DELAY_MS; ; delay = Math.min(delay * 2, LAST_RESTART_DELAY_MS)) {
      try {
        await sleep(delay, undefined, { signal: closing.signal });
        if (lacksPin()) becomeSealed("process_ended");
        await connect();
        if (sealed === undefined) log.info({ event: "token_restored" });
        return;
      } catch (error) {
        if (closing.signal.aborted) return;
        log.error({ event: "token_fault", reason: reasonOf(error) });
      }
    }
  }

  async function call<K extends TokenRequest["kind"]>(
    message: Extract<TokenRequest, { kind: K }>,
  ): Promise<TokenAnswers[K]> {
    if (sealed !== undefined) throw new VaultError("sealed");
    if (current === undefined) throw new VaultError("token_unavailable");
    try {
      return await current.request(message, CALL_DEADLINE_MS);
    } catch (error) {
      if (error instanceof DamagedBox) throw error;
      if (sealed !== undefined) throw new VaultError("sealed", undefined, { cause: error });
      throw new VaultError("token_unavailable", undefined, { cause: error });
    }
  }

  async function unseal(box: Uint8Array): Promise<TokenInfo> {
    const link = current;
    if (sealed === undefined || link === undefined || offer === undefined) throw noOffer();
    offer = undefined;
    try {
      info = await link.request({ kind: "unseal", ...place, box }, OPEN_DEADLINE_MS);
    } catch (error) {
      link.kill();
      if (error instanceof WrongPin || error instanceof StaleOffer) throw error;
      log.error({ event: "token_fault", reason: reasonOf(error) });
      throw new VaultError("token_unavailable", `The token cannot be opened: ${reasonOf(error)}`);
    }
    if (current !== link) throw new VaultError("token_unavailable");
    sealed = undefined;
    log.info({ event: "unsealed" });
    return info;
  }

  const opened = (): TokenInfo => {
    if (info === undefined) throw new VaultError("sealed");
    return info;
  };

  return {
    wrap: (plain, context) => call({ kind: "wrap", plain, context }),
    async unwrap(wrapped, context) {
      const mask = createMask(wrapped);
      try {
        return applyMask(await call({ kind: "unwrap", wrapped, context, mask }), mask);
      } finally {
        mask.fill(0);
      }
    },
    async chain(previous, texts) {
      const codes: Uint8Array[] = [];
      for (const part of chunksOf(texts)) {
        codes.push(...(await call({ kind: "chain", previous: codes.at(-1) ?? previous, texts: part })));
      }
      return codes;
    },
    async authenticate(texts) {
      const parts = chunksOf(texts).map((part) => call({ kind: "authenticate", texts: part }));
      return (await Promise.all(parts)).flat();
    },
    rewrap: (boxes) => call({ kind: "rewrap", boxes }),
    findVersions: (boxes) => call({ kind: "find_versions", boxes }),
    async rotate() {
      const { keks } = await call({ kind: "rotate" });
      info = { ...opened(), keks };
      return { keks };
    },
    async retire(kek) {
      info = { ...opened(), keks: opened().keks.filter((label) => label !== kek) };
      const { keks } = await call({ kind: "retire", kek });
      info = { ...opened(), keks };
      return { keks };
    },
    notedHead: () => call({ kind: "noted_head" }),
    noteHead: ({ seq, mac }, replaceAll = false) =>
      call({ kind: "note_head", head: { seq, mac }, replaceAll }),
    health: () => call({ kind: "health" }),
    info: opened,
    sealed: () => sealed,
    seal(reason) {
      if (sealed !== undefined) return;
      becomeSealed(reason);
      current?.kill();
    },
    whenSealed: (listener) => void listeners.push(listener),
    offer() {
      if (offer === undefined) throw noOffer();
      return offer;
    },
    unseal,
    pid: () => current?.pid,
    async close() {
      closing.abort();
      current?.kill();
      await supervision;
      current?.kill();
    },
  };
}

function noOffer(): VaultError {
  return new VaultError("token_unavailable", "The token's process is being started: try again in a moment");
}
