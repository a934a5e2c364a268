import type { Database } from "../../db/database.ts";
import { networkOf } from "../../rates/client_rates.ts";
import { createStoredRate, takeRate } from "../../rates/stored_rate.ts";

const DAY = 24 * 60 * 60;
const PER_ORGANIZATION = 30;
const PER_NETWORK = 60;
const PER_ADDRESS = 3;

/** Who invites whom, as the rates count it; `address` is a keyed hash. */
export type CountedInvitation = { organizationId: string; ip: string; address: Buffer };

/** How many invitations are mailed. */
export type InvitationRates = {
  /**
   * Counts one mail: 30 a day of an organization, 60 of a network, and 3 to an address, whoever invites.
   * Throws `rate_limited` with `Retry-After`.
   */
  take(invitation: CountedInvitation): Promise<void>;
};

/** Rates that are kept in the database, so that they hold across replicas and restarts. */
export function createInvitationRates(db: Database): InvitationRates {
  const rate = (keyPrefix: string, points: number) =>
    createStoredRate(db, { keyPrefix, points, seconds: DAY });
  const byOrganization = rate("invite", PER_ORGANIZATION);
  const byNetwork = rate("invite_ip", PER_NETWORK);
  const byAddress = rate("invite_to", PER_ADDRESS);
  return {
    async take({ organizationId, ip, address }) {
      await takeRate(byOrganization, organizationId, "The organization sent too many invitations today");
      await takeRate(byNetwork, networkOf(ip), "Too many invitations were sent from this address today");
      await takeRate(byAddress, address.toString("hex"), "Too many invitations went to this address today");
    },
  };
}
