import { expect, test } from "vitest";
import { createSearchLimit, MAX_PER_ACCOUNT, MAX_PER_PERSON } from "../../src/history/search_limits.ts";
import { runningApi } from "../support/api.ts";
import { errorCode } from "../support/platform_world.ts";

const api = runningApi();

test("runs four searches of an account at the same time, and others in the order of their calls", async () => {
  const limited = createSearchLimit();
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  const search = (accountId: string, n: number) =>
    limited({ accountId, personId: `person-${n}` }, () => {
      begun.push(n);
      return new Promise<number>((resolve) => ends.push(() => resolve(n)));
    });
  const all = [0, 1, 2, 3, 4, 5].map((n) => search("one", n));
  const other = search("two", 6);
  expect(begun).toEqual([0, 1, 2, 3, 6]);
  expect(MAX_PER_ACCOUNT).toBe(4);
  ends[0]?.();
  expect(await all[0]).toBe(0);
  await expect.poll(() => begun).toEqual([0, 1, 2, 3, 6, 4]);
  for (const end of ends) end();
  await expect.poll(() => begun).toEqual([0, 1, 2, 3, 6, 4, 5]);
  for (const end of ends) end();
  expect(await Promise.all([...all, other])).toEqual([0, 1, 2, 3, 4, 5, 6]);
});

test("refuses only the person who has too many searches under way", async () => {
  const [person, other] = [await api.person(), await api.person()];
  const path = "/v1/service/audit/personal/export?search=payments";
  const begun = await api.db.transaction(async (tx) => {
    await tx.raw("lock table audit_events in access exclusive mode");
    const calls = Array.from({ length: MAX_PER_PERSON + 1 }, () => person.client.get(path));
    const refused = await Promise.race(calls);
    expect([refused.status, errorCode(refused)]).toEqual([429, "rate_limited"]);
    return { calls, another: other.client.get(path) };
  });
  const answers = await Promise.all([...begun.calls, begun.another]);
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(MAX_PER_PERSON + 1);
  expect((await person.client.get(path)).status).toBe(200);
});
