import ipaddr from "ipaddr.js";
import { RateLimiterPostgres, RateLimiterRes } from "rate-limiter-flexible";
import type { Database } from "../db/connection.ts";
import { ApiError } from "../errors.ts";

/** Seconds of the window that the limits count in; it opens with the first call and is not moved by later ones. */
export const SEND_WINDOW_SECONDS = 15 * 60;

/** Limits of sending codes. They are kept in the database, so they hold across replicas and restarts. */
export type SendLimits = {
  /**
   * Counts one call of a client for an address (its keyed hash). Throws `rate_limited` with `Retry-After` when either
   * has had its calls; one that the client's limit refused does not count for the address.
   */
  take(call: { ip: string; addressHash: Buffer }): Promise<void>;
  /** Takes the address's call back, after its mail could not be sent. The client's stays counted. */
  giveBack(call: { addressHash: Buffer }): Promise<void>;
};

/** `perIp` and `perAddress` are calls in 15 minutes; 0 refuses every call. */
export function createSendLimits({
  db,
  perIp,
  perAddress,
}: {
  db: Database;
  perIp: number;
  perAddress: number;
}): SendLimits {
  const limiter = (keyPrefix: string, points: number) =>
    new RateLimiterPostgres({
      storeClient: db,
      storeType: "knex",
      tableName: "rate_limits",
      tableCreated: true,
      clearExpiredByTimeout: false,
      keyPrefix,
      points,
      duration: SEND_WINDOW_SECONDS,
    });
  const byIp = limiter("send_code_ip", perIp);
  const byAddress = limiter("send_code_address", perAddress);
  return {
    async take({ ip, addressHash }) {
      await consume(byIp, clientKey(ip));
      await consume(byAddress, addressHash.toString("base64url"));
    },
    async giveBack({ addressHash }) {
      await byAddress.reward(addressHash.toString("base64url"));
    },
  };
}

async function consume(limiter: RateLimiterPostgres, key: string): Promise<void> {
  try {
    await limiter.consume(key);
  } catch (refusal) {
    if (!(refusal instanceof RateLimiterRes)) throw refusal;
    const seconds = Math.max(1, Math.ceil(refusal.msBeforeNext / 1000));
    throw new ApiError("rate_limited", `Too many codes were asked for; try again in ${seconds} s`, {
      "retry-after": String(seconds),
    });
  }
}

/** IPv6 clients count by their /64, since whoever has one address there has all of them. */
function clientKey(ip: string): string {
  if (!ipaddr.isValid(ip)) return ip;
  const address = ipaddr.parse(ip);
  return address.kind() === "ipv6"
    ? ipaddr.IPv6.networkAddressFromCIDR(`${address.toString()}/64`).toString()
    : address.toString();
}
