import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { reasonOf, VaultError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { createTokenCalls, type TokenCalls } from "./calls.ts";
import { openTokenLink, type TokenLink } from "./link.ts";
import {
  DamagedBox,
  type PinFlag,
  type PinHold,
  PinWithheld,
  StaleOffer,
  type TokenAnswers,
  TokenError,
  type TokenInfo,
  type TokenPlace,
  type TokenRequest,
  WrongPin,
} from "./messages.ts";
import { createPinReport, type LoginOutcome } from "./pin_report.ts";
import { createRestartDelays } from "./restart_delay.ts";

const CALL_DEADLINE_MS = 5_000;
/** Some HSMs delay the answer to a login after wrong PINs. */
const OPEN_DEADLINE_MS = 60_000;

/**
 * The PKCS#11 token as the rest of the vault uses it. Every call rejects with `VaultError token_unavailable`
 * if the child that owns the token is not running, was killed, or does not answer within 5 s. The child is
 * then restarted. Never returns a late answer, or the answer to another call. While the token is sealed,
 * every call rejects with `VaultError sealed`.
 */
export type Token = TokenCalls & {
  /**
   * Generates the next version of the key-encryption key, which then wraps new data. Returns all versions.
   */
  rotate(): Promise<{ keks: string[] }>;
  /**
   * Permanently destroys an older version of the key-encryption key in the token. Returns the remaining
   * versions. Data that the destroyed version wraps never opens again.
   */
  retire(kek: string): Promise<{ keks: string[] }>;
  /** Checks the token by encrypting and decrypting under its newest key-encryption key. */
  health(): Promise<{ keks: string[] }>;
  /** Returns the token's description as of its last opening. Throws `VaultError sealed` if there was none. */
  info(): TokenInfo;
  /** Returns what the token last reported about its PIN, or `undefined` if it has not reported yet. */
  pinFlags(): readonly PinFlag[] | undefined;
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
   * `VaultError token_unavailable`. Without `finalTry`, rejects with `PinWithheld` if the token locks its PIN
   * after one more wrong PIN. The offer cannot be used again in any of these cases.
   */
  unseal(box: Uint8Array, finalTry?: boolean): Promise<TokenInfo>;
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
 * The others say why the vault does not try the PIN file.
 */
export type SealReason = "no_pin_file" | "asked" | "process_ended" | "chain_broken" | PinHold;

/** How to treat a token without a PIN file: as a fault, or as sealed. */
export type WithoutPin = "refuse" | "seal";

/**
 * Starts the child and opens the token. Rejects with a `TokenError` if the first opening fails. After that,
 * restarts the child whenever it exits, with delays that grow from 50 ms to 5 s. With `seal`, the token is
 * sealed if its PIN file is missing when the child starts, or if the vault does not try the file's PIN. With
 * `refuse`, rejects with `PinWithheld` in the last case. Never tries a PIN again that the token refused.
 * `count` counts attempts to open the token.
 */
export async function openToken(
  { place, environment }: TokenSettings,
  log: Logger,
  withoutPin: WithoutPin = "refuse",
  count: (outcome: LoginOutcome) => void = () => {},
): Promise<Token> {
  const closing = new AbortController();
  const listeners: ((reason: SealReason) => void)[] = [];
  const lacksPin = (): boolean => withoutPin === "seal" && !existsSync(place.pinFile);
  let sealed: SealReason | undefined = lacksPin() ? "no_pin_file" : undefined;
  let current: TokenLink | undefined;
  let offer: Uint8Array | undefined;
  let info: TokenInfo | undefined;
  const report = createPinReport(log, count);
  const delays = createRestartDelays(() => performance.now());
  await connect().catch((error: unknown) => {
    if (!(error instanceof PinWithheld) || withoutPin === "refuse") throw error;
    becomeSealed(error.details.hold);
    return connect();
  });
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
        info = await openWith(link, { kind: "open", ...place });
      }
      if (waits !== (sealed !== undefined)) throw new TokenError("The token was sealed meanwhile");
      current = link;
      delays.opened();
    } catch (error) {
      link.kill();
      await link.ended;
      throw error;
    }
  }

  async function openWith(
    link: TokenLink,
    request: Extract<TokenRequest, { kind: "open" | "unseal" }>,
  ): Promise<TokenInfo> {
    try {
      const { pin, ...opened } = await link.request(request, OPEN_DEADLINE_MS);
      report.accepted(pin);
      return opened;
    } catch (error) {
      report.failed(error);
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
    delays.ended();
    if (sealed !== undefined) delays.startOver();
    while (!closing.signal.aborted && !(await connectAfterDelay()));
  }

  async function connectAfterDelay(): Promise<boolean> {
    try {
      await sleep(delays.next(), undefined, { signal: closing.signal });
      if (lacksPin()) becomeSealed("process_ended");
      await connect();
      if (sealed === undefined) log.info({ event: "token_restored" });
      return true;
    } catch (error) {
      if (closing.signal.aborted) return false;
      if (error instanceof PinWithheld) becomeSealed(error.details.hold);
      else log.error({ event: "token_fault", reason: reasonOf(error) });
      return false;
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

  async function unseal(box: Uint8Array, finalTry = false): Promise<TokenInfo> {
    const link = current;
    if (sealed === undefined || link === undefined || offer === undefined) throw noOffer();
    offer = undefined;
    try {
      info = await openWith(link, { kind: "unseal", ...place, box, finalTry });
    } catch (error) {
      link.kill();
      const isRefusal = error instanceof WrongPin || error instanceof PinWithheld;
      if (isRefusal || error instanceof StaleOffer) throw error;
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
    ...createTokenCalls(call),
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
    async health() {
      const { keks, pin } = await call({ kind: "health" });
      report.take(pin);
      return { keks };
    },
    info: opened,
    pinFlags: report.flags,
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
