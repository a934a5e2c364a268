import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import { XSS_CORPUS } from "../../support/xss_corpus.ts";
import { markupOf } from "../support/console.ts";
import { historyViewer } from "./viewer.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const HISTORY = "/console/history";

describe("the saved filters on the history page", () => {
  test("let a member save the filter, open it as a link and delete it, without scripts", async () => {
    const seen = await historyViewer(api);
    const before = await seen.open(HISTORY);
    expect(before.words).not.toContain("Save this filter");
    const filtered = await seen.open(`${HISTORY}?search=payments+%22send%22&result=deny&from=`);
    const saved = await filtered.send("save_filter", { name: "Weekly check" });
    expect(saved.path).toBe(`${HISTORY}?search=payments+%22send%22&result=deny&notice=filter_saved`);
    expect(saved.words).toContain("Your filter is saved.");
    const shown = await seen.open(HISTORY);
    const link = shown.element("link to the filter", /<a href="([^"]*)"><bdi>Weekly check<\/bdi>/);
    expect(link).toBe(`${HISTORY}?search=payments+%22send%22&result=deny`);
    expect((await seen.open(link)).text).toMatch(/aria-current="true"><bdi>Weekly check/);
    const deleted = await shown.send("delete_filter", { name: "Weekly check" });
    expect([deleted.path, deleted.words.includes("Weekly check")]).toEqual([
      `${HISTORY}?notice=filter_deleted`,
      false,
    ]);
  });

  test("keep no page, no live update and no notice with the filter", async () => {
    const seen = await historyViewer(api);
    const page = await seen.open(`${HISTORY}?result=allow&notice=x&seen=1`);
    await page.send("save_filter", { name: "Allowed" });
    const kept = await api.db("saved_filters").where({ account_id: seen.accountId }).pluck("query");
    expect(kept).toEqual(["result=allow"]);
  });

  test("say beside the name what is wrong with it, and that 20 filters are the limit", async () => {
    const seen = await historyViewer(api);
    const filtered = await seen.open(`${HISTORY}?result=deny`);
    const empty = await filtered.send("save_filter", { name: "" });
    expect(empty.text).toMatch(/<p class="fault" id="save_filter-name-fault">Is missing/);
    for (let n = 0; n < 20; n += 1) await filtered.send("save_filter", { name: `Filter ${n}` });
    const beyond = await filtered.send("save_filter", { name: "One more" });
    expect([beyond.status, beyond.words.includes("You have 20 saved filters. Delete one first")]).toEqual([
      409,
      true,
    ]);
    expect(beyond.text).toMatch(/<details open>\s*<summary>Save this filter/);
  });

  test("show names as text, and only known parameters of a stored query", async () => {
    const seen = await historyViewer(api);
    const person = { account_id: seen.accountId, person_id: seen.accountId };
    const markup: string[] = [];
    for (const name of ["a", ...XSS_CORPUS]) {
      await api.db("saved_filters").delete();
      await api.db("saved_filters").insert({ ...person, name, query: "result=deny&cursor=x&notice=y" });
      const { text } = await seen.open(HISTORY);
      markup.push(markupOf(text).join());
      expect(text).toContain(`<a href="${HISTORY}?result=deny">`);
    }
    expect(new Set(markup).size).toBe(1);
  });

  test("stay hidden from other accounts", async () => {
    const seen = await historyViewer(api);
    const other = await historyViewer(api);
    await (await seen.open(`${HISTORY}?result=deny`)).send("save_filter", { name: "Mine" });
    expect((await other.open(HISTORY)).words).not.toContain("Mine");
    expect((await other.open(`/console/for/${seen.accountId}/history`)).status).toBe(403);
  });
});
