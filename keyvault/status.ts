import type { Journal } from "./audit/journal.ts";
import { available, type Database } from "./db/database.ts";
import { VaultError } from "./errors.ts";
import type { Retirement, RetireProgress } from "./kek/retire.ts";
import type { RewrapProgress, Rewrapping } from "./kek/rewrap.ts";
import type { Sealing, SealState } from "./lifecycle/sealing.ts";
import type { Token } from "./token/client.ts";
import type { PinFlag, TokenInfo } from "./token/messages.ts";

/** Status of the vault, without secrets. A sealed vault cannot report on its token. */
export type Status = {
  sealed: SealState | null;
  token: (TokenInfo & { answers: boolean }) | null;
  /** Flags that the token last reported about its PIN. Null if it has not reported yet. */
  pin_flags: readonly PinFlag[] | null;
  kek: RewrapProgress | null;
  /** Progress of `kek retire`. Null if none runs. */
  retiring: RetireProgress | null;
  keys: { tenants: number; active: number; disabled: number; destroying: number; destroyed: number };
  /** Id of the key that attests all other keys and signs backups. Null until the vault is first opened. */
  service_key: string | null;
  /** `head` is null until the vault is first opened, because the chain was not verified before. */
  audit: { records: number; head: string | null };
};

/** Reads the status. Rejects with `VaultError unavailable` if the database does not answer. */
export type ReadStatus = () => Promise<Status>;

/** Parts of an open vault that provide its status. */
export type StatusParts = {
  token: Token;
  journal: Journal;
  rewrapping: Pick<Rewrapping, "progress">;
  retirement: Pick<Retirement, "progress">;
  service: { keyId: string };
};

/**
 * Returns a reader of the status. `opened` returns `undefined` until the vault is first opened. The audit's
 * `head` is the last record's code in hexadecimal, which administrators can note elsewhere.
 */
export function createStatusReading(parts: {
  database: Database;
  token: Pick<Token, "pinFlags">;
  sealing: Pick<Sealing, "state">;
  opened(): StatusParts | undefined;
}): ReadStatus {
  const { database, token, sealing, opened } = parts;
  return async () => {
    const sealed = sealing.state() ?? null;
    const open = opened();
    const [keys, audit, working] = await Promise.all([
      available(() => count(database)),
      open === undefined ? countAudit(database) : headOf(open.journal),
      open === undefined || sealed !== null ? { token: null, kek: null, retiring: null } : readToken(open),
    ]);
    const pin_flags = token.pinFlags() ?? null;
    return { sealed, ...working, pin_flags, keys, service_key: open?.service.keyId ?? null, audit };
  };
}

async function readToken({
  token,
  rewrapping,
  retirement,
}: StatusParts): Promise<Pick<Status, "token" | "kek" | "retiring">> {
  const answering = token.health().then(
    () => true,
    () => false,
  );
  const [kek, answers] = await Promise.all([rewrapping.progress(), answering]);
  return { token: { ...token.info(), answers }, kek, retiring: retirement.progress() };
}

function headOf(journal: Journal): Status["audit"] {
  const { seq, mac } = journal.head();
  return { records: seq, head: mac.toString("hex") };
}

async function countAudit(database: Database): Promise<Status["audit"]> {
  const [row] = await available(() => database("audit").max<{ max: number | null }[]>("seq as max"));
  return { records: row?.max ?? 0, head: null };
}

async function count(database: Database): Promise<Status["keys"]> {
  const { rows } = await database.raw(`
    select (select count(*) from tenants) as tenants,
           count(*) filter (where state = 'active') as active,
           count(*) filter (where state = 'disabled') as disabled,
           count(*) filter (where state = 'destroying') as destroying,
           count(*) filter (where state = 'destroyed') as destroyed
    from keys`);
  return rows[0];
}

/** Checks whether the vault can sign now. */
export type Readiness = {
  /**
   * Checks token and audit, at most once per second in total for all callers. Rejects with the `VaultError`
   * of the part that is unavailable.
   */
  check(): Promise<void>;
};

const FRESH_MS = 1_000;

/**
 * Returns the vault's readiness. `opened` is undefined for a sealed vault. `elapsed` returns milliseconds.
 * `clockFault` returns why the machine's clock is too wrong, or `undefined`.
 */
export function createReadiness(
  opened: () => { token: Token; journal: Journal } | undefined,
  elapsed: () => number,
  clockFault: () => string | undefined = () => undefined,
): Readiness {
  let last: { at: number; result: Promise<void> } | undefined;

  async function prove(): Promise<void> {
    const parts = opened();
    if (parts === undefined) throw new VaultError("sealed");
    const fault = clockFault();
    if (fault !== undefined) throw new VaultError("unavailable", fault);
    await Promise.all([parts.token.health(), parts.journal.probe()]);
  }

  return {
    check() {
      if (last === undefined || elapsed() - last.at > FRESH_MS) {
        last = { at: elapsed(), result: prove() };
      }
      return last.result;
    },
  };
}
