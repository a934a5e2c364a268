import { Resolver } from "node:dns/promises";

/** Milliseconds for one question to a server, and for all of a look-up. */
const TRY_MS = 1_500;
const TRIES = 2;
const WHOLE_MS = 5_000;

/** Whether a name has a TXT record of this value; `unknown` when no server said. */
export type TxtState = "found" | "absent" | "unknown";

/** Asks DNS. */
export type TxtLookup = (name: string, value: string) => Promise<TxtState>;

/** Answers of DNS that say that there is no such record. */
const NONE = new Set(["ENOTFOUND", "ENODATA"]);

/**
 * Looks TXT records up at these servers, `<address>` or `<address>:<port>`, else at the machine's. Nothing
 * but TXT questions to these servers is sent, whatever the name; a look-up ends after 5 seconds.
 */
export function createTxtLookup(servers: readonly string[], wholeMs = WHOLE_MS): TxtLookup {
  return async (name, value) => {
    const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
    if (servers.length > 0) resolver.setServers(servers);
    const late = setTimeout(() => resolver.cancel(), wholeMs);
    try {
      const records = await resolver.resolveTxt(name);
      return records.some((chunks) => chunks.join("") === value) ? "found" : "absent";
    } catch (error) {
      return NONE.has((error as NodeJS.ErrnoException).code ?? "") ? "absent" : "unknown";
    } finally {
      clearTimeout(late);
    }
  };
}
