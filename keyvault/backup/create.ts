import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Readable } from "node:stream";
import type { Change, Journal } from "../audit/journal.ts";
import type { Caller } from "../audit/record.ts";
import { type Clock, unixSeconds } from "../clock.ts";
import type { Config } from "../config.ts";
import { createClient } from "../db/database.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import type { Custody, KeptKey } from "../keys/custody.ts";
import type { Metrics } from "../metrics.ts";
import { backupLines, type Manifest, readTokenFiles, SIGNED_VERSION } from "./contents.ts";
import { encryptStream } from "./encrypted_stream.ts";
import { backupSignBytes, type SignatureLine, signLines } from "./statement.ts";

/** A backup as it goes out, encrypted, or a refusal when there is no recovery key. */
export type CreateBackup = (caller: Caller) => Promise<Readable | Refusal>;

type Snapshot = Readable | Refusal;

/** What backups are made from. `service` gives the key that signs them, as it is now. */
export type BackupParts = {
  config: Config;
  journal: Journal;
  clock: Clock;
  custody: Pick<Custody, "sign">;
  service: { read(): Promise<KeptKey> };
  metrics: Pick<Metrics, "lastBackup">;
};

/**
 * Backups of a vault while it signs: the token's folder and every row, of one moment between two records of
 * the journal, so that every stored data key's key-encryption key is in it. Signed by the service key at its
 * end, after a record of that signature, and encrypted to the recovery key, whose private half the vault does
 * not have. One whose signature cannot be made breaks off.
 */
export function createBackups(parts: BackupParts): CreateBackup {
  const { config, journal, clock, custody, service, metrics } = parts;

  async function sign(
    caller: Caller,
    { created_at, head }: Manifest,
    digest: Buffer,
  ): Promise<SignatureLine> {
    const key = await service.read();
    const told = { type: "backup", version: 1, created_at, head, signed_by: key.keyId } as const;
    const statement = { ...told, digest: digest.toString("base64") };
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
      // A generator that nobody has begun to read runs no `finally` when it is dropped: a client that hangs
      // up before the first piece would leave the snapshot open.
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
