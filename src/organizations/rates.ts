import type { Database } from "../db/database.ts";
import { networkOf } from "../rates/client_rates.ts";
import { createStoredRate, takeRate } from "../rates/stored_rate.ts";

const QUARTER = 15 * 60;
const DAY = 24 * 60 * 60;
const INVITATIONS = 30;
const INVITATIONS_OF_NETWORK = 60;
const INVITATIONS_TO_ADDRESS = 3;
const LOOKUPS = 20;

/** Who invites whom, as the rates count it; `address` is a keyed hash. */
export type CountedInvitation = { organizationId: string; ip: string; address: Buffer };

/**
 * What an organization may cause outside: mails to anybody, and questions to anybody's DNS. Kept in the
 * database, so that it holds across replicas and restarts. Throws `rate_limited` with `Retry-After`.
 */
export type OrganizationRates = {
  /** Counts one mail: 30 a day of an organization, 60 of a network, and 3 to an address, whoever invites. */
  takeInvitation(invitation: CountedInvitation): Promise<void>;
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
  const lookups = createStoredRate(db, { keyPrefix: "verify_domain", points: LOOKUPS, seconds: QUARTER });
  return {
    async takeInvitation({ organizationId, ip, address }) {
      await takeRate(byOrganization, organizationId, "The organization sent too many invitations today");
      await takeRate(byNetwork, networkOf(ip), "Too many invitations were sent from this network today");
      await takeRate(byAddress, address.toString("hex"), "Too many invitations went to this address today");
    },
    takeLookup: (organizationId) => takeRate(lookups, organizationId, "Domains were looked up too often"),
  };
}
