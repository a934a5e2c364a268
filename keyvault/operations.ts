import { createAuditListing } from "./audit/list.ts";
import { createBackups } from "./backup/create.ts";
import type { Clock } from "./clock.ts";
import type { Config } from "./config.ts";
import type { Operations } from "./http/calls/calls.ts";
import { createKekRetirement, type Retirement } from "./kek/retire.ts";
import { createRewrapping, type Rewrapping } from "./kek/rewrap.ts";
import { createKekRotation } from "./kek/rotate.ts";
import { limitKeyCreation } from "./keys/creation/creation_rate.ts";
import { createKeyDisabling } from "./keys/disable.ts";
import { createKeyReading } from "./keys/get.ts";
import { createKeyListing } from "./keys/list.ts";
import { createCeilingShrinking } from "./keys/shrink_ceiling.ts";
import { createAdoption } from "./lifecycle/adopt_states.ts";
import { createKeyDestruction, createKeyDestructionCancelling } from "./lifecycle/destroy_key.ts";
import { createTenantDestruction, createTenantDestructionCancelling } from "./lifecycle/destroy_tenant.ts";
import { createKeyEnabling } from "./lifecycle/enable_key.ts";
import { createErasing } from "./lifecycle/erase_due.ts";
import { keepErasing } from "./lifecycle/keep_erasing.ts";
import type { Logger } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { createRates } from "./rates.ts";
import { createChallengeSigning } from "./sign/challenge.ts";
import { createDelegationSigning } from "./sign/delegation.ts";
import { createListSigning } from "./sign/revocation_list.ts";
import type { AcceptsCertificate } from "./tls/trust.ts";
import type { Vault } from "./vault.ts";

/** Everything an open vault can be asked, and what it does by itself until it is stopped. */
export type OpenOperations = {
  operations: Operations;
  rewrapping: Rewrapping;
  retirement: Pick<Retirement, "progress">;
  stop(): Promise<void>;
};

/** What the operations need besides the vault. `accepts` judges admins' certificates. */
export type OperationsParts = {
  clock: Clock;
  config: Config;
  log: Logger;
  accepts: AcceptsCertificate;
  metrics: Metrics;
};

/** The operations of an open vault. What it does by itself, erasing and rewrapping, ends with `stop`. */
export function openOperations(
  vault: Vault,
  { clock, config, log, accepts, metrics }: OperationsParts,
): OpenOperations {
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
