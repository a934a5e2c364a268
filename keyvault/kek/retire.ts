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
  readBeside,
  readInTurn,
  type Unproven,
} from "./proof.ts";

/**
 * Destroys an older version of the key-encryption key in the token permanently: whatever was wrapped under
 * it, in old backups too, never opens again. Refused with `policy_violation` for the newest version, one that
 * the token does not have, and one that a stored data key needs. The database is not trusted to say which
 * those are: beside all other calls every one is opened under a version that stays, and those that were added
 * or changed meanwhile are opened in the turn that destroys.
 *
 * That it begins is on record before anything is opened, and that it is done after the token was touched: cut
 * off in between, the next try begins anew or finds the version gone.
 */
export type RetireKek = (caller: Caller, kek: string) => Promise<Retired | Refusal>;

/** How many of the stored data keys were opened so far. */
export type RetireProgress = { kek: string; proven: number; of: number };

/** Retiring, and how far it is: null while none is under way. */
export type Retirement = {
  retire: RetireKek;
  progress(): RetireProgress | null;
  /** Ends a proof after the batch in hand, with nothing destroyed. */
  stop(): Promise<void>;
};

type Retired = { retired: string; keks: string[] };
type Ending = Retired | Refusal | VaultError;

/**
 * Data keys that are opened in the turn that destroys, for which signing waits; when more were added since,
 * the proof continues alongside.
 */
const PROVEN_IN_TURN = 250;
const ROUNDS = 20;
const NAMED = 3;

/** Retiring on these parts; `flush` puts the token's loss on the disk. */
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
   * In a turn: destroys the version unless a data key still needs it; undefined when too much is not proven
   * yet.
   */
  async function finish(client: pg.Client, kek: string, proof: RetirementProof): Promise<Ending | undefined> {
    const refused = await refusal(client, kek);
    if (refused !== undefined) return refused;
    const found = new Set<string>();
    const rest = await proof.rest(noting(readInTurn(client), found), PROVEN_IN_TURN);
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
      const unproven = await proof.extend(readBeside(database), (seen) => {
        if (stopping) throw new VaultError("unavailable", "The vault is stopping");
        progress.proven = seen;
      });
      const refused = refuseUnproven(kek, unproven);
      const ended = await journal.change(async (client) =>
        change(refused ?? (await finish(client, kek, proof))),
      );
      if (ended !== undefined) return ended;
    }
    const late = refuse("policy_violation", "Data keys change faster than they are proven: try again later");
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

/** Reads as `read` does, and adds to `found` the tenants whose data keys it gives. */
function noting(read: ReadDataKeys, found: Set<string>): ReadDataKeys {
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
