import { Resolver } from "node:dns/promises";

/** Finds the addresses of a host name. Rejects when there is none or the resolver does not answer in time. */
export type Resolve = (name: string) => Promise<string[]>;

const TRY_MILLISECONDS = 900;
const TRIES = 2;
const LIMIT_MILLISECONDS = 2000;

/**
 * Asks name servers (those given as `address:port`, else the machine's own) for A and AAAA records, for at
 * most 2 s. It takes no thread of the pool, so a name server that hangs for one receiver delays no other one
 * and no signature.
 */
export function createResolve(servers?: string[]): Resolve {
  return async function resolve(name) {
    const resolver = new Resolver({ timeout: TRY_MILLISECONDS, tries: TRIES });
    if (servers !== undefined) resolver.setServers(servers);
    const limit = setTimeout(() => resolver.cancel(), LIMIT_MILLISECONDS);
    try {
      const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
      const addresses = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
      const failure = answers.find((answer) => answer.status === "rejected");
      if (addresses.length === 0) throw failure?.reason ?? new Error("the host has no address");
      return addresses;
    } finally {
      clearTimeout(limit);
    }
  };
}
