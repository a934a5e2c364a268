import ipaddr from "ipaddr.js";
import type { Database } from "../db/database.ts";
import { createStoredRate, takeRate } from "./stored_rate.ts";

/**
 * Seconds of the window that the rates count in; it opens with the first call and is not moved by later ones.
 */
const RATE_WINDOW_SECONDS = 15 * 60;

/**
 * Rates of a client while it signs in. They are kept in the database, so they hold across replicas and
 * restarts.
 */
export type ClientRates = {
  /**
   * Counts one code asked for. Throws `rate_limited` with `Retry-After` when the client has had its calls.
   */
  takeSend(ip: string): Promise<void>;
  /** Counts one code tried, likewise; not for tries that a browser's own code answers. */
  takeTry(ip: string): Promise<void>;
  /** Takes a try back that was right. */
  giveBackTry(ip: string): Promise<void>;
};

/** Calls of one client in 15 minutes, whatever the addresses; 0 refuses every call that counts. */
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
    takeSend: (ip) => takeRate(bySend, networkOf(ip), "Too many codes were asked for"),
    takeTry: (ip) => takeRate(byTry, networkOf(ip), "Too many codes were tried"),
    async giveBackTry(ip) {
      await byTry.reward(networkOf(ip));
    },
  };
}

/**
 * The network that counts as one client: an IPv4 address, also inside IPv6, as a socket of both has it, or an
 * IPv6 /64, since the owner of one address there has all.
 */
export function networkOf(ip: string): string {
  if (!ipaddr.isValid(ip)) return ip;
  const address = ipaddr.process(ip);
  return address.kind() === "ipv6"
    ? ipaddr.IPv6.networkAddressFromCIDR(`${address.toString()}/64`).toString()
    : address.toString();
}
