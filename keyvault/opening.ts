import { type HeadKeeping, keepHeads } from "./audit/head_file.ts";
import { measureLastBackup } from "./backup/last_backup.ts";
import type { Operations } from "./http/calls/calls.ts";
import type { Retirement } from "./kek/retire.ts";
import type { Rewrapping } from "./kek/rewrap.ts";
import { type OpenOperations, type OperationsParts, openOperations } from "./operations.ts";
import { openVault, type Vault, type VaultParts } from "./vault.ts";

/** A vault that was opened, and everything it can be asked. */
export type Opened = {
  vault: Vault;
  operations: Operations;
  rewrapping: Pick<Rewrapping, "progress">;
  retirement: Pick<Retirement, "progress">;
};

/**
 * Opens the vault once its token is open for the first time; a token that is sealed later and opened again
 * finds it as it was.
 */
export type Opening = {
  /**
   * Opens the vault unless it was opened before. Rejects with a `UserError` when its parts do not belong
   * together.
   */
  open(): Promise<Opened>;
  /** What was opened, whether its token is sealed by now or not. */
  opened(): Opened | undefined;
  /** Lets go of everything but the token. */
  stop(): Promise<void>;
};

/** Opening of a vault of these parts. */
export function createOpening(parts: VaultParts & OperationsParts): Opening {
  const { config, clock, log, token, metrics } = parts;
  let current: (Opened & { working: OpenOperations; heads: HeadKeeping }) | undefined;

  return {
    async open() {
      if (current !== undefined) return current;
      const vault = await openVault(parts, "require");
      void measureLastBackup(vault.database, metrics, log);
      const working = openOperations(vault, parts);
      const { auditHeadsFile: file, auditHeadsLogSeconds } = config;
      const logEveryMs = auditHeadsLogSeconds * 1_000;
      const heads = keepHeads({ journal: vault.journal, token, clock, log, file, logEveryMs });
      const { operations, rewrapping, retirement } = working;
      current = { vault, operations, rewrapping, retirement, working, heads };
      return current;
    },
    opened: () => current,
    async stop() {
      await current?.working.stop();
      await current?.heads.stop();
      await current?.vault.close();
    },
  };
}
