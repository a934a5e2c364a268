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

/** Who invites whom, as the rates count it; `address` is a keyed hash. */
export type CountedInvitation = { organizationId: string; ip: string; address: Buffer };

/**
 * What an organization may cause outside: mails to anybody, and questions to anybody's DNS. Kept in the
 * database, so that it holds across replicas and restarts. Throws `rate_limited` with `Retry-After`.
 */
export type OrganizationRates = {
  /**
   * Counts one mail: a day 30 of an organization, 60 of a network, 3 of an organization to one address, and
   * 10 to an address by all organizations together. One that is refused counts nowhere.
   */
  takeInvitation(invitation: CountedInvitation): Promise<void>;
  /** Takes a counted invitation back that was not mailed. */
  giveBackInvitation(invitation: CountedInvitation): Promise<void>;
  /** Counts one look-up of a domain's record: 20 in 15 minutes of an organization. */
  takeLookup(organizationId: string): Promise<void>;
};

/** Makes these rates. */
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
    // The same words for both: whether others invited the address is nobody's business.
    const toAddress = "This address gets no more invitations today";
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
          // A count that refuses has counted, too. Where the database failed, nothing can be given back.
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
  for (const { rate, key } of counts) await rate.reward(key);
}
