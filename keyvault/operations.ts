import { type HeadKeeping, keepHeads } from "./audit/head_file.ts";
import { createAuditListing } from "./audit/list.ts";
import { createBackups, measureLastBackup } from "./backup/create.ts";
import type { Operations } from "./http/calls.ts";
import { createKekRetirement, type Retirement } from "./kek/retire.ts";
import { createKekRotation, createRewrapping, type Rewrapping } from "./kek/rewrap.ts";
import { createCeilingShrinking, createKeyDisabling } from "./keys/change.ts";
import { limitKeyCreation } from "./keys/creation_rate.ts";
import { createKeyListing, createKeyReading } from "./keys/view.ts";
import { createAdoption } from "./lifecycle/adopt_states.ts";
import { createTenantDestruction, createTenantDestructionCancelling } from "./lifecycle/destroy_tenant.ts";
import {
  createKeyDestruction,
  createKeyDestructionCancelling,
  createKeyEnabling,
} from "./lifecycle/enable_destroy_key.ts";
import { createErasing, keepErasing } from "./lifecycle/erase_due.ts";
import type { Metrics } from "./metrics.ts";
import { createRates } from "./rates.ts";
import { createChallengeSigning } from "./sign/challenge.ts";
import { createDelegationSigning } from "./sign/delegation.ts";
import { createListSigning } from "./sign/revocation_list.ts";
import type { AcceptsCertificate } from "./tls/trust.ts";
import { openVault, type Vault, type VaultParts } from "./vault.ts";

/** A vault that was opened, and everything it can be asked. */
type Opened = {
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

/** What a vault is opened and run with. `accepts` judges admins' certificates. */
type Parts = VaultParts & { accepts: AcceptsCertificate; metrics: Metrics };

/** Opening of a vault of these parts. */
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

/** Everything an open vault can be asked, and what it does by itself until it is stopped. */
type OpenOperations = {
  operations: Operations;
  rewrapping: Rewrapping;
  retirement: Pick<Retirement, "progress">;
  stop(): Promise<void>;
};

/** The operations of an open vault. What it does by itself, erasing and rewrapping, ends with `stop`. */
function openOperations(vault: Vault, { clock, config, log, accepts, metrics }: Parts): OpenOperations {
  const {
    token,
    database,
    journal,
    register,
    custody,
    rowCodes,
    dataKeys,
    store,
    createKey,
    flush,
    service,
  } = vault;
  const erasing = keepErasing(createErasing({ ...vault, clock }), log);
  const rewrapping = createRewrapping({ journal, token, database });
  const retirement = createKekRetirement({ journal, database, token, store, register, flush });
  const { rates, signingRates } = vault;
  const signing = { store, custody, journal, register, clock, rates, signingRates };
  const changing = { journal, register, store, rowCodes, dataKeys, clock, accepts };
  const creation = {
    rates: createRates(() => performance.now()),
    rate: config.creationRate,
    perDay: config.creationsPerDay,
    log,
    keyCreations: metrics.keyCreations,
  };
  const operations: Operations = {
    createKey: limitKeyCreation({ createKey, database, journal, ...creation }),
    getKey: createKeyReading({ store }),
    listKeys: createKeyListing({ database, store }),
    disableKey: createKeyDisabling(changing),
    shrinkCeiling: createCeilingShrinking(changing),
    enableKey: createKeyEnabling(changing),
    destroyKey: createKeyDestruction(changing),
    cancelKeyDestruction: createKeyDestructionCancelling(changing),
    destroyTenant: createTenantDestruction(changing),
    cancelTenantDestruction: createTenantDestructionCancelling(changing),
    adoptStates: createAdoption(changing),
    rotateKek: createKekRotation({ journal, token, flush }),
    retireKek: retirement.retire,
    rewrapping,
    signDelegation: createDelegationSigning({ ...signing, policy: config.delegations }),
    signRevocationList: createListSigning({ ...signing, database }),
    signChallenge: createChallengeSigning(signing),
    createBackup: createBackups({ config, journal, clock, custody, service, metrics }),
    listAudit: createAuditListing({ database, journal }),
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
