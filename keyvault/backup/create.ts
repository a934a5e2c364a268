import { readFile } from "node:fs/promises";
import { Readable } from "node:stream";
import type { Change, Journal } from "../audit/journal.ts";
import type { Caller } from "../audit/record.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import { createClient } from "../db/connection.ts";
import { migrationNames } from "../db/migrate.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import { backupLines, type Manifest, readTokenFiles } from "./contents.ts";
import { sealStream } from "./sealed_stream.ts";

/** A backup as it goes out, encrypted, or a refusal when there is no recovery key. */
export type CreateBackup = (caller: Caller) => Promise<Readable | Refusal>;

type Snapshot = Readable | Refusal;

/**
 * Backups of a vault while it signs: the token's folder and every row, of one moment between two records of the journal, so that every
 * stored data key's key-encryption key is in it. Encrypted to the recovery key, whose private half the vault does not have.
 */
export function createBackups(parts: { config: Config; journal: Journal; clock: Clock }): CreateBackup {
  const { config, journal, clock } = parts;

  async function snapshot(recoveryKey: string): Promise<Readable> {
    const client = createClient(config.databaseUrl);
    client.on("error", () => {});
    try {
      await client.connect();
      await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
      await client.query("SELECT FROM audit LIMIT 1");
      const { seq, mac } = journal.head();
      const manifest: Manifest = {
        kind: "manifest",
        version: 1,
        created_at: clock.now().toISOString(),
        migrations: migrationNames(),
        head: { seq, mac: mac.toString("hex") },
        token: config.token.managed ? await readTokenFiles(config.token.dir) : {},
      };
      return Readable.from(sealStream(backupLines(client, manifest), recoveryKey), { objectMode: false });
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
          ? refuse("policy_violation", 'There is no recovery key: make one by "keyvault backup key"')
          : await snapshot(recoveryKey);
      return { value: made, entry: { ...about, outcome: isRefusal(made) ? made.refused : "granted" } };
    });
  };
}
