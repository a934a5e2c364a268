import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Readable } from "node:stream";
import type { Change, Journal } from "../audit/journal.ts";
import type { Caller } from "../audit/record.ts";
import { type Clock, unixSeconds } from "../clock.ts";
import type { Config } from "../config.ts";
import { createClient, type Database } from "../db/database.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import type { Custody, KeptKey } from "../keys/custody.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import { encryptStream } from "./encrypted_stream.ts";
import {
  backupLines,
  backupSignBytes,
  type Manifest,
  readTokenFiles,
  SIGNED_VERSION,
  type SignatureLine,
  signLines,
} from "./format.ts";

/** Creates an encrypted backup. Resolves to a refusal if the vault has no recovery key. */
export type CreateBackup = (caller: Caller) => Promise<Readable | Refusal>;

type Snapshot = Readable | Refusal;

/** Dependencies of {@link createBackups}. `service` returns the current key that signs backups. */
export type BackupParts = {
  config: Config;
  journal: Journal;
  clock: Clock;
  custody: Pick<Custody, "sign">;
  service: { read(): Promise<KeptKey> };
  metrics: Pick<Metrics, "lastBackup">;
};

/**
 * Returns a function that creates backups while the vault keeps signing. A backup contains the token's folder
 * and every row, as of one moment between two records of the journal. So it contains the key-encryption key
 * of every stored data key. The service key signs the backup at its end, after an audit record of that
 * signature. The backup is encrypted to the recovery key, whose private half the vault does not have. If the
 * signature fails, the backup stream is aborted.
 */
export function createBackups(parts: BackupParts): CreateBackup {
  const { config, journal, clock, custody, service, metrics } = parts;

  async function sign(
    caller: Caller,
    { created_at, head }: Manifest,
    digest: Buffer,
  ): Promise<SignatureLine> {
    const key = await service.read();
    const unsigned = { type: "backup", version: 1, created_at, head, signed_by: key.keyId } as const;
    const statement = { ...unsigned, digest: digest.toString("base64") };
    const bytes = backupSignBytes(statement);
    const record = {
      caller,
      keyId: key.keyId,
      purpose: "service",
      statement: "backup",
      digest: hash("sha256", bytes, "buffer"),
      detail: { step: "signed" },
    } as const;
    await journal.record({ ...record, outcome: "granted" });
    try {
      const signature = await custody.sign(key, bytes);
      return { kind: "signature", statement, public_key: key.publicKey, signature };
    } catch (error) {
      await journal.record({ ...record, outcome: "failed" });
      throw error;
    }
  }

  async function snapshot(caller: Caller, recoveryKey: string): Promise<Readable> {
    const client = createClient(config.databaseUrl);
    client.on("error", () => {});
    try {
      await client.connect();
      await client.query("begin isolation level repeatable read read only");
      await client.query("select from audit limit 1");
      const applied = await client.query<{ name: string }>("select name from schema_migrations order by id");
      const now = clock.now();
      const { seq, mac } = journal.head();
      const manifest: Manifest = {
        kind: "manifest",
        version: SIGNED_VERSION,
        created_at: now.toISOString(),
        migrations: applied.rows.map(({ name }) => name),
        head: { seq, mac: mac.toString("hex") },
        token: config.token.managed ? await readTokenFiles(config.token.dir) : {},
      };
      const lines = signLines(backupLines(client, manifest), (digest) => sign(caller, manifest, digest));
      const backup = Readable.from(encryptStream(lines, recoveryKey), { objectMode: false });
      backup.once("end", () => metrics.lastBackup.set(unixSeconds(now)));
      // Node runs the `finally` block of a generator only if somebody has read from it. Without this handler,
      // a client that disconnects before the first chunk would leave the snapshot open.
      return backup.once("close", () => void client.end().catch(() => {}));
    } catch (error) {
      void client.end().catch(() => {});
      throw error;
    }
  }

  return async (caller) => {
    const about = { caller, statement: "backup" } as const;
    const recoveryKey = await readFile(config.recoveryKeyFile, "utf8").catch(() => undefined);
    return journal.change(async (): Promise<Change<Snapshot>> => {
      const made =
        recoveryKey === undefined
          ? refuse("policy_violation", 'There is no recovery key: make one with "keyvault backup key"')
          : await snapshot(caller, recoveryKey);
      return { value: made, entry: { ...about, outcome: isRefusal(made) ? made.refused : "granted" } };
    });
  };
}

/** How many of the newest records to search for the last backup. */
const RECORDS = 1_000_000;

/**
 * Sets the metric to the time of the last signed backup in the audit, unless a newer backup finished in the
 * meantime. Never rejects. If the audit cannot be read, logs the failure and leaves the metric unchanged.
 */
export async function measureLastBackup(
  database: Database,
  { lastBackup }: Pick<Metrics, "lastBackup">,
  log: Logger,
): Promise<void> {
  try {
    const { rows } = await database.raw<{ rows: { recorded_at: Date }[] }>(
      `select recorded_at from audit as signed
       where statement = 'backup' and outcome = 'granted' and detail->>'step' = 'signed'
         and seq > (select max(seq) from audit) - ${RECORDS}
         and not exists (
           select from audit as failed
           where failed.seq > signed.seq and failed.statement = 'backup'
             and failed.outcome = 'failed' and failed.digest = signed.digest)
       order by seq desc limit 1`,
    );
    const known = (await lastBackup.get()).values[0]?.value ?? 0;
    const [row] = rows;
    if (row !== undefined) lastBackup.set(Math.max(known, unixSeconds(row.recorded_at)));
  } catch (error) {
    log.warn({ event: "last_backup_unknown", reason: error instanceof Error ? error.message : "unknown" });
  }
}
