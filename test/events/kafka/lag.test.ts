import { expect, test } from "vitest";
import { readLag } from "../../../src/events/kafka/lag.ts";

/** Returns a fake admin client with these partitions: [partition, low, high, committed]. */
function adminOf(...rows: [number, string, string, string][]) {
  return {
    fetchTopicOffsets: async () =>
      rows.map(([partition, low, high]) => ({ partition, low, high, offset: high })),
    fetchOffsets: async () => [
      {
        topic: "t",
        partitions: rows.map(([partition, , , offset]) => ({ partition, offset, metadata: null })),
      },
    ],
  };
}

test("readLag counts the kept records that the group has not committed", async () => {
  const admin = adminOf([1, "0", "10", "7"], [0, "5", "10", "-1"], [2, "8", "10", "3"], [3, "0", "0", "-1"]);
  expect(await readLag(admin, "t", "g")).toEqual([
    { partition: 0, low: 5n, end: 10n, committed: undefined, lag: 5 },
    { partition: 1, low: 0n, end: 10n, committed: 7n, lag: 3 },
    { partition: 2, low: 8n, end: 10n, committed: 3n, lag: 2 },
    { partition: 3, low: 0n, end: 0n, committed: undefined, lag: 0 },
  ]);
});

test("readLag returns 0 for an offset beyond the end of a topic that was created again", async () => {
  expect(await readLag(adminOf([0, "0", "4", "90"]), "t", "g")).toMatchObject([{ committed: 90n, lag: 0 }]);
});

test("readLag counts all records for a group that never read", async () => {
  const admin = { ...adminOf([0, "2", "9", "-1"]), fetchOffsets: async () => [] };
  expect(await readLag(admin, "t", "g")).toMatchObject([{ committed: undefined, lag: 7 }]);
});
