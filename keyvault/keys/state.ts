import { canonicalBytes } from "../../src/protocol/canonical.ts";
import { ProtocolError } from "../../src/protocol/errors.ts";
import type { KeyRow, TenantRow } from "../db/rows.ts";
import { VaultError } from "../errors.ts";
import type { Token } from "../token/client.ts";
import { createSeen } from "./seen.ts";

/** Whether a later audit record than the row's own speaks of a change: then the row is an earlier state, put back. */
export type Superseded = { superseded: boolean };

/** SQL of {@link Superseded} for a row of `keys`. */
export const KEY_SUPERSEDED = `EXISTS (
  SELECT FROM audit WHERE audit.key_id = keys.key_id AND audit.seq > keys.state_seq AND audit.outcome = 'granted'
    AND audit.statement IN ('key_disable', 'key_enable', 'key_destroy', 'key_destroy_cancel', 'key_erase', 'ceiling_shrink'))`;

/** SQL of {@link Superseded} for a row of `tenants`. */
export const TENANT_SUPERSEDED = `EXISTS (
  SELECT FROM audit WHERE audit.detail ->> 'tenant' = tenants.tenant AND audit.seq > tenants.state_seq
    AND audit.outcome = 'granted' AND audit.statement IN ('tenant_destroy', 'tenant_destroy_cancel', 'tenant_erase'))`;

const NOTHING = new Uint8Array(0);

type KeyState = Omit<KeyRow, "state_mac">;
type TenantState = Omit<TenantRow, "state_mac">;

/** The token's word on what a key or a tenant may do, so that nobody gives it another state or ceiling by the database alone. */
export type Seals = {
  /** The rows with their codes, in one call of the token. */
  seal<K extends KeyState, T extends TenantState>(rows: {
    keys: readonly K[];
    tenants: readonly T[];
  }): Promise<{ keys: (K & { state_mac: Buffer })[]; tenants: (T & { state_mac: Buffer })[] }>;
  /**
   * Which of the rows are as the vault wrote them last, in order: keys, then tenants. The number of each that is stays remembered, and from
   * then on no row of that key or tenant with a lower one is.
   */
  check(rows: StateRows): Promise<boolean[]>;
  /** As {@link Seals.check}. Rejects with `VaultError key_damaged` unless all are. */
  require(rows: StateRows): Promise<void>;
  /** Remembers the numbers of rows that are durable from this moment. */
  written(rows: { keys: readonly KeyState[]; tenants: readonly TenantState[] }): void;
  /** The present moment, for {@link Seals.overtaken}. */
  now(): number;
  /**
   * Whether a later state of one of the rows has come since `readAt`, before which they were not read. Only what is read outside the
   * journal's turns can be: it is to be read again before it is called damaged.
   */
  overtaken(rows: { keys: readonly KeyState[]; tenants: readonly TenantState[] }, readAt: number): boolean;
  /** To be called when the chain was opened anew and ends with the record `seq`: nothing later counts as seen. */
  reopened(seq: number): void;
};

type StateRows = { keys: readonly (KeyRow & Superseded)[]; tenants: readonly (TenantRow & Superseded)[] };

/** Seals by the token's audit key. */
export function createSeals(token: Pick<Token, "authenticate">): Seals {
  const codes = async (texts: Uint8Array[]): Promise<Buffer[]> =>
    (await token.authenticate(texts)).map((code) => Buffer.from(code));
  const seen = createSeen();
  const note = (row: KeyState | TenantState): void => seen.note(nameOf(row), row.state_seq ?? 0);
  const age = (row: KeyState | TenantState, readAt: number) =>
    seen.age(nameOf(row), row.state_seq ?? 0, readAt);
  const seals: Seals = {
    async seal({ keys, tenants }) {
      const macs = await codes([...keys.map(keyStateBytes), ...tenants.map(tenantStateBytes)]);
      const sealed = <R>(row: R, index: number) => ({ ...row, state_mac: macs[index] ?? Buffer.alloc(0) });
      return {
        keys: keys.map(sealed),
        tenants: tenants.map((row, index) => sealed(row, keys.length + index)),
      };
    },
    async check({ keys, tenants }) {
      const texts = [...keys.map(orNothing(keyStateBytes)), ...tenants.map(orNothing(tenantStateBytes))];
      const macs = await codes(texts.map((text) => text ?? NOTHING));
      return [...keys, ...tenants].map((row, index) => {
        const proven =
          texts[index] !== undefined && row.state_mac !== null && macs[index]?.equals(row.state_mac) === true;
        if (!proven || row.superseded || age(row, Number.POSITIVE_INFINITY) !== "newest") return false;
        note(row);
        return true;
      });
    },
    async require(rows) {
      const results = await seals.check(rows);
      if (results.includes(false)) throw new VaultError("key_damaged");
    },
    written({ keys, tenants }) {
      for (const row of [...keys, ...tenants]) note(row);
    },
    now: seen.now,
    overtaken: ({ keys, tenants }, readAt) =>
      [...keys, ...tenants].some((row) => age(row, readAt) === "overtaken"),
    reopened: seen.endAt,
  };
  return seals;
}

function nameOf(row: KeyState | TenantState): string {
  return "key_id" in row ? `key ${row.key_id}` : `tenant ${row.tenant}`;
}

/** A row's bytes, or undefined when it has no canonical form, which no row has that the vault wrote. */
function orNothing<Row>(bytesOf: (row: Row) => Uint8Array): (row: Row) => Uint8Array | undefined {
  return (row) => {
    try {
      return bytesOf(row);
    } catch (error) {
      if (error instanceof ProtocolError) return undefined;
      throw error;
    }
  };
}

function keyStateBytes(row: KeyState): Uint8Array {
  return canonicalBytes({
    type: "key_state",
    key_id: row.key_id,
    tenant: row.tenant,
    state: row.state,
    ceiling: row.ceiling,
    pending: row.pending,
    disabled_at: row.disabled_at?.toISOString() ?? null,
    destroy_at: row.destroy_at?.toISOString() ?? null,
    seq: row.state_seq,
  });
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
