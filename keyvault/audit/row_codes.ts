import { hash } from "node:crypto";
import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import type { KeyRow, TenantRow } from "../db/rows.ts";
import { VaultError } from "../errors.ts";
import type { Token } from "../token/client.ts";
import type { Register } from "./last_states.ts";

const NOTHING = new Uint8Array(0);
/** The vault never writes a longer state, because request bodies and ceilings are shorter. */
const MAX_STATE_BYTES = 524_288;

type KeyState = Omit<KeyRow, "state_mac">;
type TenantState = Omit<TenantRow, "state_mac">;

/**
 * Codes (HMACs by the token) over the state and ceiling of each key or tenant. They reveal every change that
 * was made only in the database. A key's code also covers its purpose, label and request.
 */
export type RowCodes = {
  /** Returns the rows with their codes. Makes one call to the token. */
  add<K extends KeyState, T extends TenantState>(rows: {
    keys: readonly K[];
    tenants: readonly T[];
  }): Promise<{ keys: (K & { state_mac: Buffer })[]; tenants: (T & { state_mac: Buffer })[] }>;
  /**
   * Returns for each row, first the keys and then the tenants, whether the vault last wrote it in this form.
   * The row must have a valid code, and its state must be the last one in the verified audit. `turn` is the
   * number of the record that the journal is writing now. A row without an earlier state may have the state
   * of that record.
   */
  check(rows: StateRows, turn?: number): Promise<boolean[]>;
  /** Checks rows like {@link RowCodes.check}. Rejects with `VaultError key_damaged` unless all rows pass. */
  require(rows: StateRows): Promise<void>;
  /** Returns the current position in the audit, for {@link RowCodes.overtaken}. */
  now(): number;
  /**
   * Returns whether a row changed after the audit position `readAt`, which must be from before the rows were
   * read. Read such rows again before you report them as damaged.
   */
  overtaken(rows: { keys: readonly KeyState[]; tenants: readonly TenantState[] }, readAt: number): boolean;
};

type StateRows = { keys: readonly KeyRow[]; tenants: readonly TenantRow[] };

/** Returns row codes that use the token's audit key and the last states in the register. */
export function createRowCodes(
  token: Pick<Token, "authenticate">,
  register: Pick<Register, "head" | "isLast" | "changedAt">,
): RowCodes {
  const codes = async (texts: Uint8Array[]): Promise<Buffer[]> =>
    (await token.authenticate(texts)).map((code) => Buffer.from(code));
  const changedAt = (row: KeyState | TenantState): number => register.changedAt(...nameOf(row));

  function isLast(row: KeyRow | TenantRow, text: Uint8Array, turn: number | undefined): boolean {
    if (register.isLast(...nameOf(row), row.state_seq, hash("sha256", text, "buffer"))) return true;
    return turn !== undefined && row.state_seq === turn && changedAt(row) === 0;
  }

  async function match(
    rows: readonly (KeyRow | TenantRow)[],
    texts: readonly (Uint8Array | undefined)[],
    turn: number | undefined,
  ): Promise<boolean[]> {
    const macs = await codes(texts.map((text) => text ?? NOTHING));
    return rows.map((row, index) => {
      const text = texts[index];
      if (text === undefined || row.state_mac === null) return false;
      return macs[index]?.equals(row.state_mac) === true && isLast(row, text, turn);
    });
  }

  const rowCodes: RowCodes = {
    async add({ keys, tenants }) {
      const macs = await codes([...keys.map(keyStateBytes), ...tenants.map(tenantStateBytes)]);
      const coded = <R>(row: R, index: number) => ({ ...row, state_mac: macs[index] ?? Buffer.alloc(0) });
      return {
        keys: keys.map(coded),
        tenants: tenants.map((row, index) => coded(row, keys.length + index)),
      };
    },
    async check({ keys, tenants }, turn) {
      const texts = [...keys.map(orNothing(keyStateBytes)), ...tenants.map(orNothing(tenantStateBytes))];
      const intact = await match([...keys, ...tenants], texts, turn);
      const others = keys.filter((_, index) => intact[index] === false);
      const earlier = await match(others, others.map(orNothing(earlierKeyStateBytes)), turn);
      const isEarlier = new Set(others.filter((_, index) => earlier[index] === true));
      return intact.map((holds, index) => {
        const key = keys[index];
        return holds || (key !== undefined && isEarlier.has(key));
      });
    },
    async require(rows) {
      const results = await rowCodes.check(rows);
      if (results.includes(false)) throw new VaultError("key_damaged");
    },
    now: () => register.head().seq,
    overtaken: ({ keys, tenants }, readAt) =>
      [...keys, ...tenants].some((row) => changedAt(row) > Math.max(readAt, row.state_seq ?? 0)),
  };
  return rowCodes;
}

/** Returns SHA-256 of the bytes that the authentication code of a key's row covers. */
export function keyStateDigest(row: KeyState): Buffer {
  return hash("sha256", keyStateBytes(row), "buffer");
}

/** Returns SHA-256 of the bytes that a tenant's code covers. */
export function tenantStateDigest(row: TenantState): Buffer {
  return hash("sha256", tenantStateBytes(row), "buffer");
}

function nameOf(row: KeyState | TenantState): ["key" | "tenant", string] {
  return "key_id" in row ? ["key", row.key_id] : ["tenant", row.tenant];
}

/** Returns whether a row's state has a form that the vault writes. Only such a row can get a code. */
export function isCodable(row: KeyState | TenantState): boolean {
  const text = "key_id" in row ? orNothing(keyStateBytes)(row) : orNothing(tenantStateBytes)(row);
  return text !== undefined;
}

/**
 * Wraps `bytesOf` to return `undefined` for a row that has no canonical form or is too long. The vault never
 * writes such a row.
 */
function orNothing<Row>(bytesOf: (row: Row) => Uint8Array): (row: Row) => Uint8Array | undefined {
  return (row) => {
    try {
      const bytes = bytesOf(row);
      return bytes.length > MAX_STATE_BYTES ? undefined : bytes;
    } catch (error) {
      if (error instanceof ProtocolError) return undefined;
      throw error;
    }
  };
}

function keyStateBytes(row: KeyState): Uint8Array {
  const { purpose, label, request_key, request_hash } = row;
  const request = { name: request_key, hash: request_hash?.toString("hex") ?? null };
  return canonicalBytes({ ...earlierKeyState(row), version: 2, purpose, label, request });
}

/** Returns the bytes that codes of the first version cover. A key keeps such a code until its next change. */
function earlierKeyStateBytes(row: KeyState): Uint8Array {
  return canonicalBytes(earlierKeyState(row));
}

function earlierKeyState(row: KeyState): object {
  return {
    type: "key_state",
    key_id: row.key_id,
    tenant: row.tenant,
    state: row.state,
    ceiling: row.ceiling,
    pending: row.pending,
    disabled_at: row.disabled_at?.toISOString() ?? null,
    destroy_at: row.destroy_at?.toISOString() ?? null,
    seq: row.state_seq,
  };
}

function tenantStateBytes(row: TenantState): Uint8Array {
  return canonicalBytes({
    type: "tenant_state",
    tenant: row.tenant,
    state: row.state,
    pending: row.pending,
    destroy_at: row.destroy_at?.toISOString() ?? null,
    seq: row.state_seq,
  });
}
