import { createHash } from "node:crypto";
import type pg from "pg";
import type { Change, Journal } from "../audit/journal.ts";
import { type Register, writeNamed } from "../audit/last_states.ts";
import type { Caller } from "../audit/record.ts";
import { isCodable, keyStateDigest, type RowCodes, tenantStateDigest } from "../audit/row_codes.ts";
import { type KeyRow, type TenantRow, type Wish, wishOf } from "../db/rows.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import type { KeyStore } from "../keys/store.ts";
import { decideByTwo, type JudgingParts, judging } from "./approval.ts";

/**
 * Gives codes to rows that an earlier version stored without them, after a second admin makes the same
 * request. `rows` is the SHA-256 of the states of all these rows. The second admin therefore approves exactly
 * the rows of the first request. If a row is altered in between, the second request starts a new wish. Adopts
 * only keys and tenants that never had a code according to the audit. Each audit record names the rows that
 * it adopts. After an interruption, the remaining rows need two admins again.
 */
export type AdoptStates = (caller: Caller) => Promise<AdoptionAnswer | Refusal>;

/** Number of keys and tenants that were adopted, or that wait for another admin to make the same request. */
export type AdoptionAnswer = {
  adopted: boolean;
  keys: number;
  tenants: number;
  rows: string;
  pending: Wish | null;
};

/** Dependencies of adoption. */
export type AdoptionParts = JudgingParts & {
  journal: Journal;
  register: Pick<Register, "isAdoptable" | "adoptionWish">;
  rowCodes: RowCodes;
  store: Pick<KeyStore, "changed">;
};

type Rows = { keys: KeyRow[]; tenants: TenantRow[] };
type Asked = { outcome: AdoptionAnswer; granted: ReadonlySet<string> | undefined };

/** Maximum number of rows that one record names. */
const BATCH = 250;

/** Creates the operation that adopts rows. */
export function createAdoption(parts: AdoptionParts): AdoptStates {
  const { journal, register, rowCodes, store } = parts;

  async function readRows(client: pg.Client): Promise<Rows> {
    const [keys, tenants] = [
      await client.query<KeyRow>("select * from keys where state_mac is null order by key_id"),
      await client.query<TenantRow>("select * from tenants where state_mac is null order by tenant"),
    ];
    return {
      keys: keys.rows
        .filter((row) => register.isAdoptable("key", row.key_id) && isCodable(row))
        .map((row) => ({ ...row, state_seq: null })),
      tenants: tenants.rows
        .filter((row) => register.isAdoptable("tenant", row.tenant) && isCodable(row))
        .map((row) => ({ ...row, state_seq: null })),
    };
  }

  /**
   * Applies the two-admin rule to a request. Does not record an approval, because each adopted batch has a
   * record.
   */
  async function decide(client: pg.Client, caller: Caller): Promise<Change<Asked | Refusal>> {
    const found = await readRows(client);
    const about = { caller, statement: "state_adopt" } as const;
    const refused = (refusal: Refusal): Change<Refusal> => {
      return { value: refusal, entry: { ...about, outcome: refusal.refused } };
    };
    const [keys, tenants] = [found.keys.length, found.tenants.length];
    if (keys + tenants === 0) return refused(refuse("policy_violation", "No row waits for adoption"));
    const digests = digestsOf(found);
    const rows = summaryOf(digests);
    const wish = { action: "adopt", rows } as const;
    const decision = decideByTwo(register.adoptionWish(), wish, caller, judging(parts));
    const outcome = { adopted: decision === "granted", keys, tenants, rows };
    if (decision === "granted") {
      return { value: { outcome: { ...outcome, pending: null }, granted: new Set(digests) } };
    }
    if (isRefusal(decision)) return refused(decision);
    const { certificate } = decision;
    const detail = {
      ...{ step: "asked", rows, keys: String(keys), tenants: String(tenants) },
      ...(certificate !== undefined && { certificate }),
    };
    return {
      value: { outcome: { ...outcome, pending: wishOf(decision) }, granted: undefined },
      entry: { ...about, detail, outcome: "granted" },
    };
  }

  /** Adopts one batch of rows and returns their number. Skips rows that were altered since the approval. */
  async function adoptSome(
    client: pg.Client,
    seq: number,
    caller: Caller,
    granted: ReadonlySet<string>,
  ): Promise<Change<number>> {
    const found = await readRows(client);
    const isGranted = (digest: Buffer): boolean => granted.has(digest.toString("latin1"));
    const next = <Row>(row: Row) => ({ ...row, state_seq: seq });
    const keys = found.keys.filter((row) => isGranted(keyStateDigest(row))).slice(0, BATCH);
    const tenants = found.tenants.filter((row) => isGranted(tenantStateDigest(row))).slice(0, BATCH);
    if (keys.length + tenants.length === 0) return { value: 0 };
    const coded = await rowCodes.add({ keys: keys.map(next), tenants: tenants.map(next) });
    await writeCodes(client, "keys", seq, namesAnd("key_id", coded.keys));
    await writeCodes(client, "tenants", seq, namesAnd("tenant", coded.tenants));
    const detail = {
      step: "done",
      rows: String(keys.length + tenants.length),
      keys: writeNamed(coded.keys.map((row) => [row.key_id, keyStateDigest(row)])),
      tenants: writeNamed(coded.tenants.map((row) => [row.tenant, tenantStateDigest(row)])),
    };
    return {
      value: keys.length + tenants.length,
      entry: { caller, statement: "state_adopt", outcome: "granted", detail },
      committed: () => store.changed(),
    };
  }

  return async (caller) => {
    const asked = await journal.change((client) => decide(client, caller));
    if (isRefusal(asked)) return asked;
    const { granted } = asked;
    if (granted !== undefined) {
      while ((await journal.change((client, seq) => adoptSome(client, seq, caller, granted))) > 0);
    }
    return asked.outcome;
  };
}

function digestsOf({ keys, tenants }: Rows): string[] {
  return [...keys.map(keyStateDigest), ...tenants.map(tenantStateDigest)].map((digest) =>
    digest.toString("latin1"),
  );
}

function summaryOf(digests: readonly string[]): string {
  const summary = createHash("sha256");
  for (const digest of digests) summary.update(digest, "latin1");
  return summary.digest("hex");
}

function namesAnd<Name extends string>(
  name: Name,
  rows: readonly ({ [K in Name]: string } & { state_mac: Buffer })[],
): [string, Buffer][] {
  return rows.map((row) => [row[name], row.state_mac]);
}

async function writeCodes(
  client: pg.Client,
  table: "keys" | "tenants",
  seq: number,
  codes: readonly (readonly [string, Buffer])[],
): Promise<void> {
  await client.query(
    `update ${table} set state_seq = $1, state_mac = code.mac
     from unnest($2::text[], $3::bytea[]) as code (name, mac)
     where ${table}.${table === "keys" ? "key_id" : "tenant"} = code.name`,
    [seq, codes.map(([name]) => name), codes.map(([, mac]) => mac)],
  );
}
