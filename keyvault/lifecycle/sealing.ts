import { setTimeout as sleep } from "node:timers/promises";
import { LRUCache } from "lru-cache";
import type { Change, Journal } from "../audit/journal.ts";
import type { AuditEntry, Caller } from "../audit/record.ts";
import { LedgerMismatch } from "../audit/writer_connection.ts";
import type { Clock } from "../clock.ts";
import { type Refusal, refuse, UserError, VaultError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { SealReason, Token } from "../token/client.ts";
import { PinWithheld, StaleOffer, WrongPin } from "../token/messages.ts";

/** When the vault was sealed (ISO 8601), the reason, and the admin who requested the sealing, if any. */
export type SealState = { since: string; reason: SealReason; by: string | null };

/**
 * A PIN encrypted to the key `offer`, both in base64. With `final_try`, the vault tries the PIN even if the
 * token locks after one more wrong PIN.
 */
export type EncryptedPin = { offer: string; box: string; final_try?: boolean };

/**
 * Sealing and unsealing. A sealed vault cannot record anything, because the audit's key is in the token.
 * Events about the seal are therefore logged and kept in memory. The next successful unsealing records them.
 */
export type Sealing = {
  state(): SealState | undefined;
  /**
   * Seals immediately and returns the new state. Writes the audit record first, but waits at most 2 s for it.
   */
  seal(caller: Caller): Promise<SealState>;
  /** Returns the key to encrypt the PIN to. Refuses if the vault is not sealed. */
  offer(): { offer: string } | Refusal;
  /**
   * Opens the token with an encrypted PIN, then the vault. Refuses with `wrong_pin`, `stale_offer` or
   * `rate_limited`, and with `policy_violation` if the PIN needs `final_try`. After a failure, the caller
   * must wait 1 s, after each further failure twice as long, and at most 60 s. If the vault cannot be opened,
   * or cannot record who unsealed it, seals the vault again.
   */
  unseal(caller: Caller, pin: EncryptedPin): Promise<{ sealed: false } | Refusal>;
};

/**
 * Dependencies of sealing. `open` opens the vault after its token. `journal` returns the vault's audit, or
 * `undefined` if the vault has never been opened. `elapsed` is a monotonic clock in milliseconds.
 */
export type SealingParts = {
  token: Pick<Token, "sealed" | "seal" | "whenSealed" | "offer" | "unseal">;
  open(): Promise<Journal>;
  journal(): Journal | undefined;
  clock: Clock;
  elapsed(): number;
  log: Logger;
};

const RECORD_DEADLINE_MS = 2_000;
const FIRST_WAIT_MS = 1_000;
const LAST_WAIT_MS = 60_000;
const REMEMBERED_CALLERS = 1_000;
const REMEMBERED_ENTRIES = 100;

type Failures = { count: number; at: number };

/** Creates the sealing and unsealing of this vault. */
export function createSealing({ token, open, journal, clock, elapsed, log }: SealingParts): Sealing {
  const failures = new LRUCache<string, Failures>({ max: REMEMBERED_CALLERS });
  const unrecorded: AuditEntry[] = [];
  let sealedBy: Caller | undefined;
  let state = stateOf(token.sealed());
  let unsealing = false;
  let sealWanted: SealState | undefined;
  token.whenSealed((reason) => {
    state = stateOf(reason);
  });

  function stateOf(reason: SealReason | undefined): SealState | undefined {
    if (reason === undefined) return undefined;
    const by = reason === "asked" && sealedBy !== undefined ? `${sealedBy.role}/${sealedBy.name}` : null;
    return { since: clock.now().toISOString(), reason, by };
  }

  function remember(entry: AuditEntry): void {
    const detail = { ...entry.detail, happened_at: clock.now().toISOString() };
    unrecorded.push({ ...entry, detail });
    if (unrecorded.length > REMEMBERED_ENTRIES) unrecorded.shift();
  }

  function sealNow(caller: Caller): void {
    sealedBy = caller;
    token.seal("asked");
    log.warn({ event: "sealed_by", caller: caller.name, role: caller.role });
  }

  function waitOf({ name }: Caller): number {
    const failed = failures.get(name);
    if (failed === undefined) return 0;
    const wait = Math.min(LAST_WAIT_MS, FIRST_WAIT_MS * 2 ** (failed.count - 1));
    return Math.max(0, failed.at + wait - elapsed());
  }

  function fail(caller: Caller, refusal: Refusal): Refusal {
    failures.set(caller.name, { count: (failures.get(caller.name)?.count ?? 0) + 1, at: elapsed() });
    remember({ caller, statement: "unseal", outcome: refusal.refused });
    log.warn({ event: "unseal_refused", caller: caller.name, role: caller.role, code: refusal.refused });
    return refusal;
  }

  async function openToken(caller: Caller, pin: EncryptedPin): Promise<Refusal | undefined> {
    if (pin.offer !== encode(token.offer())) return refuse("stale_offer");
    try {
      await token.unseal(Buffer.from(pin.box, "base64"), pin.final_try);
      failures.delete(caller.name);
      return undefined;
    } catch (error) {
      if (error instanceof WrongPin) return fail(caller, refuse("wrong_pin", error.message));
      if (error instanceof StaleOffer) return fail(caller, refuse("stale_offer"));
      if (error instanceof PinWithheld) return fail(caller, refuse("policy_violation", error.message));
      throw error;
    }
  }

  function requireNoSealRequest(): void {
    if (sealWanted !== undefined) throw new VaultError("sealed");
    if (token.sealed() !== undefined) throw new VaultError("token_unavailable");
  }

  async function openVault(caller: Caller, before: SealState): Promise<void> {
    try {
      const opened = await open();
      requireNoSealRequest();
      for (let entry = unrecorded[0]; entry !== undefined; entry = unrecorded[0]) {
        await opened.record(entry);
        unrecorded.shift();
      }
      const detail = { sealed_since: before.since, reason: before.reason };
      await opened.record({ caller, statement: "unseal", outcome: "granted", detail });
      requireNoSealRequest();
      state = undefined;
    } catch (error) {
      const broken = error instanceof LedgerMismatch;
      const after = sealWanted ?? (broken ? { ...before, reason: "chain_broken" as const } : before);
      token.seal(after.reason);
      state = after;
      if (!(error instanceof UserError)) throw error;
      log.error({ event: "vault_not_opened", reason: error.message });
      throw new VaultError("unavailable", `The vault cannot be opened: ${error.message}`, { cause: error });
    }
  }

  return {
    state: () => state,

    async seal(caller) {
      if (state !== undefined && !unsealing) return state;
      const entry = { caller, statement: "seal", outcome: "granted" } as const;
      if (unsealing) {
        remember(entry);
        sealedBy = caller;
        sealWanted = stateOf("asked");
        return sealWanted ?? { since: clock.now().toISOString(), reason: "asked", by: null };
      }
      const recording = journal()?.change(
        async (): Promise<Change<void>> => ({ value: undefined, entry, committed: () => sealNow(caller) }),
      );
      const recorded = recording?.catch((error: unknown) =>
        log.error({ event: "seal_not_recorded", err: error }),
      );
      await Promise.race([recorded, sleep(RECORD_DEADLINE_MS, undefined, { ref: false })]);
      if (state === undefined) {
        remember(entry);
        sealNow(caller);
      }
      return state ?? { since: clock.now().toISOString(), reason: "asked", by: null };
    },

    offer: () => (state === undefined ? notSealed() : { offer: encode(token.offer()) }),

    async unseal(caller, pin) {
      const before = state;
      if (before === undefined) return notSealed();
      const wait = unsealing ? FIRST_WAIT_MS : waitOf(caller);
      if (wait > 0) {
        return { ...refuse("rate_limited", "Too many tries"), retryAfterSeconds: Math.ceil(wait / 1000) };
      }
      unsealing = true;
      sealWanted = undefined;
      try {
        const refusal = await openToken(caller, pin);
        if (refusal !== undefined) return refusal;
        await openVault(caller, before);
        return { sealed: false };
      } finally {
        unsealing = false;
      }
    },
  };
}

function notSealed(): Refusal {
  return refuse("policy_violation", "The vault is not sealed");
}

function encode(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}
