import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startApi } from "../support/api.ts";

test("a page that starts an operation late still has time to show an error if the operation hangs", async () => {
  const api = await startApi({
    deadlineMs: 2_000,
    site: ({ runCall }) => ({
      id: "site",
      serves: (path) => path === "/site",
      async answer({ id }) {
        await sleep(100);
        const call = { requestId: id.logged, route: "site" };
        const never = new Promise<never>(() => {});
        return runCall(call, () => never).catch(() => ({ status: 503, headers: {}, body: "a page" }));
      },
    }),
  });
  try {
    const answer = await fetch(`${api.url}/site`);
    expect([answer.status, await answer.text()]).toEqual([503, "a page"]);
  } finally {
    await api.stop();
  }
});
