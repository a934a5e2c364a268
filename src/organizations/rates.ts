import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { networkOf } from "../rates/client_rates.ts";
import { createStoredRate, takeRate } from "../rates/stored_rate.ts";

const QUARTER = 15 * 60;
const DAY = 24 * 60 * 60;
const INVITATIONS = 30;
const INVITATIONS_OF_NETWORK = 60;
const INVITATIONS_TO_ADDRESS = 3;
const INVITATIONS_TO_ADDRESS_OF_ALL = 10;
const LOOKUPS = 20;

/** An invitation to count. `address` is a keyed hash. */
export type CountedInvitation = { organizationId: string; ip: string; address: Buffer };

/**
 * Rate limits for emails and DNS lookups that an organization causes. The counts hold across replicas and
 * restarts. Exceeding a limit throws `rate_limited` with `Retry-After`.
 */
export type OrganizationRates = {
  /**
   * Counts one invitation email. Daily limits: 30 for an organization, 60 for a network, 3 from an
   * organization to one address, and 10 from all organizations to one address. A refused email counts against
   * no limit.
   */
  takeInvitation(invitation: CountedInvitation): Promise<void>;
  /** Removes an unsent invitation from the counts. */
  giveBackInvitation(invitation: CountedInvitation): Promise<void>;
  /** Counts one DNS lookup. The limit is 20 in 15 minutes for an organization. */
  takeLookup(organizationId: string): Promise<void>;
};

/** Creates rate limits that are stored in the database. */
export function createOrganizationRates(db: Database): OrganizationRates {
  const daily = (keyPrefix: string, points: number) =>
    createStoredRate(db, { keyPrefix, points, seconds: DAY });
  const byOrganization = daily("invite", INVITATIONS);
  const byNetwork = daily("invite_ip", INVITATIONS_OF_NETWORK);
  const byAddress = daily("invite_to", INVITATIONS_TO_ADDRESS);
  const byAddressOfAll = daily("invite_to_of_all", INVITATIONS_TO_ADDRESS_OF_ALL);
  const lookups = createStoredRate(db, { keyPrefix: "verify_domain", points: LOOKUPS, seconds: QUARTER });
  const countsOf = ({ organizationId, ip, address }: CountedInvitation): Count[] => {
    const to = address.toString("hex");
    // Both limits use the same message, to hide whether other organizations invited the address.
    const toAddress = "This address can receive no further invitations today";
    return [
      { rate: byOrganization, key: organizationId, what: "The organization sent too many invitations today" },
      { rate: byNetwork, key: networkOf(ip), what: "Too many invitations were sent from this network today" },
      { rate: byAddress, key: `${organizationId}:${to}`, what: toAddress },
      { rate: byAddressOfAll, key: to, what: toAddress },
    ];
  };
  return {
    async takeInvitation(invitation) {
      const taken: Count[] = [];
      for (const count of countsOf(invitation)) {
        try {
          await takeRate(count.rate, count.key, count.what);
        } catch (error) {
          // Undoes all counts, including that of the exceeded limit. After a database failure, nothing can
          // be undone.
          if (error instanceof ApiError) await giveBack([...taken, count]);
          throw error;
        }
        taken.push(count);
      }
    },
    giveBackInvitation: (invitation) => giveBack(countsOf(invitation)),
    takeLookup: (organizationId) => takeRate(lookups, organizationId, "Domains were looked up too often"),
  };
}

type Count = { rate: ReturnType<typeof createStoredRate>; key: string; what: string };

async function giveBack(counts: Count[]): Promise<void> {
  for (const { rate, key } of counts) await rate.giveBack(key);
}
