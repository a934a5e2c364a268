import type pg from "pg";
import type { Change, Journal } from "../audit/journal.ts";
import type { Register } from "../audit/last_states.ts";
import type { AuditEntry, Caller } from "../audit/record.ts";
import type { Database } from "../db/database.ts";
import { asVaultError, type Refusal, refuse, VaultError } from "../errors.ts";
import type { KeyStore } from "../keys/store.ts";
import type { Token } from "../token/client.ts";
import {
  countStored,
  countUnder,
  createRetirementProof,
  type ReadDataKeys,
  type RetirementProof,
  readInTransaction,
  readOutsideJournal,
  type Unproven,
} from "./proof.ts";

/**
 * Permanently destroys an older version of the key-encryption key in the token. Data that this version wraps
 * never opens again, including data keys in old backups. Refuses with `policy_violation` for the newest
 * version, for a version that the token lacks, and for a version that a stored data key needs. Does not trust
 * the version that the database names for a data key: the token opens every data key under a version that
 * remains, while other calls continue. Data keys that are added or changed meanwhile are opened in the
 * transaction that destroys the version. Records the start before any data key is opened, and the result
 * after the version is destroyed. If the vault stops in between, the next attempt starts from the beginning
 * or finds that the version no longer exists.
 */
export type RetireKek = (caller: Caller, kek: string) => Promise<Retired | Refusal>;

/** Progress of a retirement: how many of the `of` stored data keys were opened under a remaining version. */
export type RetireProgress = { kek: string; proven: number; of: number };

/** Retirement of versions. `progress` is null while no retirement runs. */
export type Retirement = {
  retire: RetireKek;
  progress(): RetireProgress | null;
  /** Stops a running proof after the current batch. Nothing is destroyed. */
  stop(): Promise<void>;
};

type Retired = { retired: string; keks: string[] };
type Ending = Retired | Refusal | VaultError;

/**
 * Maximum number of data keys to open in the transaction that destroys the version. Signing waits for that
 * transaction. If there are more new data keys, the proof continues outside the journal.
 */
const PROVEN_IN_TRANSACTION = 250;
const ROUNDS = 20;
const NAMED = 3;

/** Returns the retirement. `flush` writes the token's files to disk after a version was destroyed. */
export function createKekRetirement(parts: {
  journal: Pick<Journal, "change" | "record">;
  database: Database;
  token: Pick<Token, "info" | "retire" | "findVersions">;
  store: Pick<KeyStore, "changed">;
  register: Pick<Register, "tenants" | "isErased">;
  flush(): Promise<void>;
}): Retirement {
  const { journal, database, token, store, register, flush } = parts;
  const running = new Set<Promise<unknown>>();
  let current: RetireProgress | null = null;
  let stopping = false;

  async function refusal(client: pg.Client, kek: string): Promise<Refusal | undefined> {
    const { keks } = token.info();
    if (!keks.includes(kek)) return refuse("policy_violation", `The token has no ${kek}`);
    if (keks.at(-1) === kek) {
      return refuse("policy_violation", `${kek} is the newest version, which is in use`);
    }
    const wrapped = await countUnder(client, kek);
    return wrapped === 0
      ? undefined
      : refuse("policy_violation", `${kek} still wraps ${wrapped} data keys: rewrap them first`);
  }

  async function destroy(kek: string): Promise<Retired | VaultError> {
    try {
      const { keks } = await token.retire(kek);
      await flush();
      return { retired: kek, keks };
    } catch (error) {
      return asVaultError(error);
    }
  }

  /**
   * Opens the data keys not proven yet, then destroys the version or refuses. Returns `undefined` if there
   * are too many of these data keys.
   */
  async function finish(client: pg.Client, kek: string, proof: RetirementProof): Promise<Ending | undefined> {
    const refused = await refusal(client, kek);
    if (refused !== undefined) return refused;
    const found = new Set<string>();
    const rest = await proof.rest(collectingTenants(readInTransaction(client), found), PROVEN_IN_TRANSACTION);
    if (rest === undefined) return undefined;
    const missing = [...register.tenants()].filter(
      (tenant) => !found.has(tenant) && !register.isErased("tenant", tenant),
    );
    const unproven = { ...(await proof.prove(rest)), missing };
    return refuseUnproven(kek, unproven) ?? (await destroy(kek));
  }

  async function prove(about: Omit<AuditEntry, "outcome">, kek: string): Promise<Ending> {
    const proof = createRetirementProof(token, kek);
    const progress = { kek, proven: 0, of: await countStored(database) };
    current = progress;
    const change = (ending: Ending | undefined): Change<Ending | undefined> =>
      ending === undefined
        ? { value: ending }
        : { value: ending, entry: { ...about, outcome: outcomeOf(ending) } };
    for (let round = 0; round < ROUNDS; round += 1) {
      const unproven = await proof.extend(readOutsideJournal(database), (seen) => {
        if (stopping) throw new VaultError("unavailable", "The vault is stopping");
        progress.proven = seen;
      });
      const refused = refuseUnproven(kek, unproven);
      const ended = await journal.change(async (client) =>
        change(refused ?? (await finish(client, kek, proof))),
      );
      if (ended !== undefined) return ended;
    }
    const late = refuse(
      "policy_violation",
      "Data keys changed while they were checked, so the version was not retired: try again later",
    );
    return journal.change(async () => ({ ...change(late), value: late }));
  }

  const retire: RetireKek = async (caller, kek) => {
    const about = { caller, statement: "kek_retire" } as const;
    const begun = await journal.change(async (client): Promise<Change<Refusal | undefined>> => {
      const refused = await refusal(client, kek);
      const outcome = refused?.refused ?? ("granted" as const);
      const entry = { ...about, detail: { kek, step: "begun" }, outcome };
      return { value: refused, entry, committed: () => store.changed() };
    });
    if (begun !== undefined) return begun;
    const done = { ...about, detail: { kek, step: "done" } };
    try {
      const ended = await prove(done, kek).catch(async (error: unknown) => {
        await journal.record({ ...done, outcome: "failed" });
        throw error;
      });
      if (!(ended instanceof VaultError)) return ended;
      throw ended;
    } finally {
      current = null;
    }
  };

  return {
    progress: () => current,
    async retire(caller, kek) {
      const run = retire(caller, kek);
      const ended = run.catch(() => {});
      running.add(ended);
      try {
        return await run;
      } finally {
        running.delete(ended);
      }
    },
    async stop() {
      stopping = true;
      await Promise.all(running);
    },
  };
}

function outcomeOf(ending: Ending): AuditEntry["outcome"] {
  if (ending instanceof VaultError) return "failed";
  return "refused" in ending ? ending.refused : "granted";
}

function collectingTenants(read: ReadDataKeys, found: Set<string>): ReadDataKeys {
  return async (after, limit) => {
    const rows = await read(after, limit);
    for (const { tenant } of rows) found.add(tenant);
    return rows;
  };
}

function refuseUnproven(
  kek: string,
  { needed, unopened, missing = [] }: Unproven & { missing?: string[] },
): Refusal | undefined {
  const counted = (tenants: string[], what: string): string[] =>
    tenants.length === 0
      ? []
      : [
          `${tenants.length} data keys ${what} (tenants ${tenants.slice(0, NAMED).join(", ")}${tenants.length > NAMED ? ", …" : ""})`,
        ];
  const reasons = [
    ...counted(needed, "need it, though the database says otherwise"),
    ...counted(unopened, "open under no version"),
    ...counted(missing, "are not in the database, though the audit records them"),
  ];
  return reasons.length === 0
    ? undefined
    : refuse("policy_violation", `${kek} is kept: ${reasons.join("; ")}`);
}
