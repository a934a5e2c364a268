import { afterAll, beforeAll, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { deleteUndecided } from "../../../src/delegations/requests/delete_undecided.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { copyRequest, requested } from "../../support/platform_world.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

test.each([
  ["people", { external_id: null }, "Index Scan using delegation_requests_undecided"],
  ["deleted objects", { external_id: "c1.gone" }, "Scan on gone_requests"],
])(
  "the deletion of undecided requests of %s reads only requests that it can delete",
  async (who, by, scan) => {
    await api.db("delegation_requests").delete();
    const { requestId } = await requested(api);
    await api.db("delegation_requests").where({ request_id: requestId }).update({ status: "denied" });
    await copyRequest(api.db, requestId, 5_000);
    await api
      .db("delegation_requests")
      .where({ request_id: requestId })
      .update({ status: "expired", ...by });
    if (who === "deleted objects") {
      await api.db.raw("insert into gone_requests values (?)", [requestId]);
    }
    await api.db.raw("analyze delegation_requests, gone_requests");
    const now = addSeconds(api.clock.now(), 400 * 86_400);
    const sent: { sql: string; bindings: unknown[] }[] = [];
    const note = (query: { sql: string; bindings: unknown[] }) => void sent.push(query);
    api.db.on("query", note);
    expect(await deleteUndecided({ db: api.db, now, keptDays: 30 })).toBe(1);
    api.db.off("query", note);
    const deletions = sent.filter((query) => query.sql.startsWith("delete from"));
    expect(deletions).toHaveLength(2);
    const explained = deletions.map(async ({ sql, bindings }) => {
      const { rows } = await api.pools.decisions.query(`explain ${sql}`, bindings);
      return rows.map((row) => row["QUERY PLAN"]).join("\n");
    });
    const plans = await Promise.all(explained);
    expect(plans.join("\n")).toMatch(new RegExp(scan));
    for (const plan of plans) expect(plan).not.toMatch(/Seq Scan on delegation_requests/);
  },
);
