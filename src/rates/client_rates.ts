import ipaddr from "ipaddr.js";
import type { Database } from "../db/database.ts";
import { createStoredRate, takeRate } from "./stored_rate.ts";

/** The window starts with the first call, and later calls do not extend it. */
const RATE_WINDOW_SECONDS = 15 * 60;

/** Rate limits of a client while it signs in, stored in the database for all replicas. */
export type ClientRates = {
  /** Counts a request for a sign-in code. Throws `rate_limited` with `Retry-After` at the limit. */
  takeSend(ip: string): Promise<void>;
  /**
   * Counts an attempt to enter a sign-in code. Throws the same error. Do not call it for an attempt with a
   * sign-in code that the same browser requested.
   */
  takeTry(ip: string): Promise<void>;
  /** Undoes the count of an attempt with a correct sign-in code. */
  giveBackTry(ip: string): Promise<void>;
};

/**
 * Returns the rate limits, which count the calls of one client in 15 minutes for all email addresses
 * together. A limit of 0 refuses every counted call.
 */
export function createClientRates({
  db,
  sends,
  tries,
}: {
  db: Database;
  sends: number;
  tries: number;
}): ClientRates {
  const limiter = (keyPrefix: string, points: number) =>
    createStoredRate(db, { keyPrefix, points, seconds: RATE_WINDOW_SECONDS });
  const bySend = limiter("send_code_ip", sends);
  const byTry = limiter("verify_code_ip", tries);
  return {
    takeSend: (ip) => takeRate(bySend, networkOf(ip), "Too many sign-in codes were requested"),
    takeTry: (ip) => takeRate(byTry, networkOf(ip), "Too many sign-in codes were tried"),
    async giveBackTry(ip) {
      await byTry.giveBack(networkOf(ip));
    },
  };
}

/**
 * Returns the network that counts as one client: an IPv4 address (also if embedded in IPv6), or a /64 of
 * IPv6, because the owner of one address has the whole /64.
 */
export function networkOf(ip: string): string {
  if (!ipaddr.isValid(ip)) return ip;
  const address = ipaddr.process(ip);
  return address.kind() === "ipv6"
    ? ipaddr.IPv6.networkAddressFromCIDR(`${address.toString()}/64`).toString()
    : address.toString();
}
