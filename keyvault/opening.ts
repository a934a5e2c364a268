import { type HeadKeeping, keepHeads } from "./audit/head_file.ts";
import { createAuditListing } from "./audit/list.ts";
import { createBackups, measureLastBackup } from "./backup/create.ts";
import type { ComparedClock } from "./clock.ts";
import type { Operations } from "./http/calls.ts";
import { createKekRetirement, type Retirement } from "./kek/retire.ts";
import { createKekRotation, createRewrapping, type Rewrapping } from "./kek/rewrap.ts";
import { createCeilingShrinking, createKeyDisabling } from "./keys/change.ts";
import { limitKeyCreation } from "./keys/creation_rate.ts";
import { createKeyListing, createKeyReading } from "./keys/view.ts";
import { createAdoption } from "./lifecycle/adopt_states.ts";
import {
  createKeyDestruction,
  createKeyDestructionCancelling,
  createKeyEnabling,
  createTenantDestruction,
  createTenantDestructionCancelling,
} from "./lifecycle/destroy.ts";
import { createErasing, keepErasing } from "./lifecycle/erase_due.ts";
import type { Metrics } from "./metrics.ts";
import { createRates } from "./rates.ts";
import { createChallengeSigning } from "./sign/challenge.ts";
import { createDelegationSigning } from "./sign/delegation.ts";
import { createListSigning } from "./sign/revocation_list.ts";
import type { AcceptsCertificate } from "./tls/trust.ts";
import { openVault, type Vault, type VaultParts } from "./vault.ts";

type Opened = {
  vault: Vault;
  operations: Operations;
  rewrapping: Pick<Rewrapping, "progress">;
  retirement: Pick<Retirement, "progress">;
};

/** Opens the vault when its token is first opened. If the token is sealed later, the vault remains open. */
export type Opening = {
  /** Opens the vault unless it is open. Rejects with a `UserError` if its parts do not belong together. */
  open(): Promise<Opened>;
  /** Returns the opened vault, even if its token has been sealed since. */
  opened(): Opened | undefined;
  /** Closes everything except the token. */
  stop(): Promise<void>;
};

/** Dependencies of a vault and its operations. `accepts` checks admins' certificates. */
type Parts = VaultParts & { clock: ComparedClock; accepts: AcceptsCertificate; metrics: Metrics };

/** Returns the opening of this vault. */
export function createOpening(parts: Parts): Opening {
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

type OpenOperations = {
  operations: Operations;
  rewrapping: Rewrapping;
  retirement: Pick<Retirement, "progress">;
  stop(): Promise<void>;
};

/** Returns the operations of an open vault. Also starts the background work: erasing and rewrapping. */
function openOperations(vault: Vault, { clock, config, log, accepts, metrics }: Parts): OpenOperations {
  const parts = { ...vault, clock, config, log, accepts, metrics };
  const erasing = keepErasing(createErasing(parts), log);
  const rewrapping = createRewrapping(parts);
  const retirement = createKekRetirement(parts);
  const creation = {
    rates: createRates(() => performance.now()),
    rate: config.creationRate,
    perDay: config.creationsPerDay,
    keyCreations: metrics.keyCreations,
  };
  const operations: Operations = {
    createKey: limitKeyCreation({ ...parts, ...creation }),
    getKey: createKeyReading(parts),
    listKeys: createKeyListing(parts),
    disableKey: createKeyDisabling(parts),
    shrinkCeiling: createCeilingShrinking(parts),
    enableKey: createKeyEnabling(parts),
    destroyKey: createKeyDestruction(parts),
    cancelKeyDestruction: createKeyDestructionCancelling(parts),
    destroyTenant: createTenantDestruction(parts),
    cancelTenantDestruction: createTenantDestructionCancelling(parts),
    adoptStates: createAdoption(parts),
    rotateKek: createKekRotation(parts),
    retireKek: retirement.retire,
    rewrapping,
    signDelegation: createDelegationSigning({ ...parts, policy: config.delegations }),
    signRevocationList: createListSigning(parts),
    signChallenge: createChallengeSigning(parts),
    createBackup: createBackups(parts),
    listAudit: createAuditListing(parts),
  };
  return {
    operations,
    rewrapping,
    retirement,
    async stop() {
      await Promise.all([erasing.stop(), rewrapping.stop(), retirement.stop()]);
    },
  };
}
