import type { Change, Journal } from "../audit/journal.ts";
import type { Caller } from "../audit/record.ts";
import { available, type Database } from "../db/database.ts";
import type { TenantRow } from "../db/rows.ts";
import { asVaultError, VaultError } from "../errors.ts";
import { boxOf, type WrappedDataKey } from "../keys/data_keys.ts";
import { isDataKeyRow } from "../keys/wrapping.ts";
import type { Token } from "../token/client.ts";

/**
 * `remaining` counts data keys that an older version still wraps. `damaged` names tenants whose data keys do
 * not open.
 */
export type RewrapProgress = {
  running: boolean;
  kek: string;
  done: number;
  remaining: number;
  damaged: string[];
  /** Error code if the last run failed, otherwise null. The next run continues where it stopped. */
  fault: string | null;
};

/**
 * Wraps the tenants' data keys again under the newest key-encryption key while other calls continue. Stores
 * each batch with its audit record in one transaction, so the next run continues an interrupted one.
 */
export type Rewrapping = {
  /** Starts a run, unless one is in progress, and returns the progress. */
  start(caller: Caller): Promise<RewrapProgress>;
  progress(): Promise<RewrapProgress>;
  /** Stops after the current batch. */
  stop(): Promise<void>;
};

const BATCH = 250;

/** Creates the rewrapping. Starts no run yet. */
export function createRewrapping(parts: { journal: Journal; token: Token; database: Database }): Rewrapping {
  const { journal, token, database } = parts;
  let run: Promise<void> | undefined;
  let stopping = false;
  let done = 0;
  let fault: string | null = null;
  let damaged: string[] = [];

  const newest = (): string => token.info().keks.at(-1) ?? "";
  const older = () =>
    database<TenantRow>("tenants").whereNot({ kek: newest() }).whereRaw("octet_length(wrapped_data_key) > 0");

  async function progress(): Promise<RewrapProgress> {
    const [row] = await available(() => older().count<{ count: number }[]>("* as count"));
    const still =
      damaged.length === 0 ? [] : await available(() => older().whereIn("tenant", damaged).pluck("tenant"));
    const remaining = Math.max(0, (row?.count ?? 0) - still.length);
    return { running: run !== undefined, kek: newest(), done, remaining, damaged: still, fault };
  }

  async function rewrapAll(caller: Caller): Promise<void> {
    for (let after = ""; !stopping; ) {
      const batch = await available(() =>
        older()
          .where("tenant", ">", after)
          .orderBy("tenant")
          .limit(BATCH)
          .select("tenant", "kek", "wrapped_data_key"),
      );
      if (batch.length === 0) return;
      await rewrapBatch(caller, batch);
      after = batch.at(-1)?.tenant ?? after;
    }
  }

  /**
   * Returns whether a row may be sent to the token with its batch. An altered row would make the whole
   * message fail.
   */
  function isWhole(row: WrappedDataKey): boolean {
    return isDataKeyRow(row) && token.info().keks.includes(row.kek);
  }

  async function rewrapBatch(caller: Caller, batch: readonly WrappedDataKey[]): Promise<void> {
    const whole = batch.filter(isWhole);
    const boxes = await token.rewrap(whole.map(boxOf));
    const rows = whole.flatMap((row, index) => {
      const box = boxes[index];
      return box ? [{ ...row, kek: box.kek, box: Buffer.from(box.box) }] : [];
    });
    const renewed = new Set(rows.map(({ tenant }) => tenant));
    damaged.push(...batch.flatMap(({ tenant }) => (renewed.has(tenant) ? [] : [tenant])));
    done += await journal.change(async (client) => {
      const kept = rows.filter(({ kek }) => token.info().keks.includes(kek));
      const { rowCount } = await client.query(
        `update tenants set kek = renewed.kek, wrapped_data_key = renewed.box
         from unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[]) as renewed (tenant, kek, box, old)
         where tenants.tenant = renewed.tenant and tenants.wrapped_data_key = renewed.old`,
        [
          kept.map(({ tenant }) => tenant),
          kept.map(({ kek }) => kek),
          kept.map(({ box }) => box),
          kept.map(({ wrapped_data_key }) => wrapped_data_key),
        ],
      );
      const detail = { kek: newest(), tenants: String(rowCount ?? 0) };
      return { value: rowCount ?? 0, entry: { caller, statement: "kek_rewrap", outcome: "granted", detail } };
    });
  }

  return {
    progress,
    async start(caller) {
      const detail = { kek: newest() };
      await journal.record({ caller, statement: "kek_rewrap", outcome: "granted", detail });
      if (run === undefined) {
        [done, fault, damaged] = [0, null, []];
        run = rewrapAll(caller)
          .catch((error: unknown) => {
            fault = asVaultError(error).code;
          })
          .finally(() => {
            run = undefined;
          });
      }
      return progress();
    },
    async stop() {
      stopping = true;
      await run;
    },
  };
}

/** Creates the next version of the key-encryption key in the token. From then on, it wraps new data keys. */
export type RotateKek = (caller: Caller) => Promise<Rotated>;

type Rotated = { kek: string; keks: string[] };

/**
 * Creates the rotation. A rotation runs in a transaction of the journal. `flush` writes the token's files to
 * disk, so a data key is stored under the new version only after that version is on disk.
 */
export function createKekRotation(parts: {
  journal: Journal;
  token: Pick<Token, "rotate">;
  flush(): Promise<void>;
}): RotateKek {
  return async (caller) => {
    const about = { caller, statement: "kek_rotate" } as const;
    const result = await parts.journal.change(async (): Promise<Change<Rotated | VaultError>> => {
      try {
        const { keks } = await parts.token.rotate();
        await parts.flush();
        const kek = keks.at(-1) ?? "";
        return { value: { kek, keks }, entry: { ...about, outcome: "granted", detail: { kek } } };
      } catch (error) {
        return { value: asVaultError(error), entry: { ...about, outcome: "failed" } };
      }
    });
    if (result instanceof VaultError) throw result;
    return result;
  };
}
