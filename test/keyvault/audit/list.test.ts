import { expect, test } from "vitest";
import { createAuditListing } from "../../../keyvault/audit/list.ts";
import type { Database } from "../../../keyvault/db/database.ts";

const mac = Buffer.alloc(32, 1);
const records = [1, 2, 3, 4, 5, 6, 7].map((seq) => ({ seq, recorded_at: new Date(0), digest: null, mac }));

/** Answers the only query of the listing from {@link records}. */
const database = (() => {
  let after = 0;
  const query = {
    where(_column: string, _operator: string, seq: number) {
      after = seq;
      return query;
    },
    orderBy: () => query,
    limit: async (most: number) => records.filter(({ seq }) => seq > after).slice(0, most),
  };
  return query;
}) as unknown as Database;

test.each([
  [{ limit: 3 }, [5, 6, 7], null],
  [{ limit: 100 }, [1, 2, 3, 4, 5, 6, 7], null],
  [{ after: 2, limit: 3 }, [3, 4, 5], 5],
  [{ after: 4, limit: 3 }, [5, 6, 7], null],
  [{ after: 7, limit: 3 }, [], null],
])(
  "the audit's page for %o contains the records %o, and its next page starts after %o",
  async (range, seqs, next) => {
    const list = createAuditListing({ database, journal: { head: () => ({ seq: 7, mac }) } });
    const page = await list(range);
    expect(page.records.map(({ seq }) => seq)).toEqual(seqs);
    expect(page).toMatchObject({ next, head: { seq: 7, mac: mac.toString("hex") } });
  },
);
