import { hash } from "node:crypto";
import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import type { KeyRow, TenantRow } from "../db/rows.ts";
import { VaultError } from "../errors.ts";
import type { Token } from "../token/client.ts";
import type { Register } from "./last_states.ts";

const NOTHING = new Uint8Array(0);
/** Bytes that no state has that the vault wrote: a request's body is shorter, and so is a ceiling. */
const MAX_STATE_BYTES = 524_288;

type KeyState = Omit<KeyRow, "state_mac">;
type TenantState = Omit<TenantRow, "state_mac">;

/**
 * The token's word on what a key or a tenant may do, so that nobody gives it another state or ceiling by the
 * database alone; of a key also on its purpose and label and the request that it was made for.
 */
export type RowCodes = {
  /** The rows with their codes, in one call of the token. */
  add<K extends KeyState, T extends TenantState>(rows: {
    keys: readonly K[];
    tenants: readonly T[];
  }): Promise<{ keys: (K & { state_mac: Buffer })[]; tenants: (T & { state_mac: Buffer })[] }>;
  /**
   * Which of the rows are as the vault wrote them last, in order: keys, then tenants. Such a row has the
   * token's code and the last state that the verified audit records. In the journal's turn that writes the
   * record `turn`, a row without an earlier state may have that one.
   */
  check(rows: StateRows, turn?: number): Promise<boolean[]>;
  /** As {@link RowCodes.check}. Rejects with `VaultError key_damaged` unless all are. */
  require(rows: StateRows): Promise<void>;
  /** The present moment, for {@link RowCodes.overtaken}. */
  now(): number;
  /**
   * Whether one of the rows has had a later state since `readAt`, before which they were not read. Only what
   * is read outside the journal's turns can be: it is to be read again before it is called damaged.
   */
  overtaken(rows: { keys: readonly KeyState[]; tenants: readonly TenantState[] }, readAt: number): boolean;
};

type StateRows = { keys: readonly KeyRow[]; tenants: readonly TenantRow[] };

/** Row codes made by the token's audit key, checked against the register. */
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

/** SHA-256 of what a key's code covers. */
export function keyStateDigest(row: KeyState): Buffer {
  return hash("sha256", keyStateBytes(row), "buffer");
}

/** SHA-256 of what a tenant's code covers. */
export function tenantStateDigest(row: TenantState): Buffer {
  return hash("sha256", tenantStateBytes(row), "buffer");
}

function nameOf(row: KeyState | TenantState): ["key" | "tenant", string] {
  return "key_id" in row ? ["key", row.key_id] : ["tenant", row.tenant];
}

/** Whether the vault can have written a row's state, so that it can be given a code. */
export function isCodable(row: KeyState | TenantState): boolean {
  const text = "key_id" in row ? orNothing(keyStateBytes)(row) : orNothing(tenantStateBytes)(row);
  return text !== undefined;
}

/** A row's bytes, or undefined when it has no canonical form or is too long, which the vault never writes. */
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

/** What the codes of the first version cover, which a key has until its next change. */
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
