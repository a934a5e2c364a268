import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { stepRecovery } from "../../../src/webhooks/resend_and_recover.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { insertDelivery } from "../../support/deliveries.ts";
import { formIn } from "../support/console.ts";
import { type RealReceiver, realReceiver } from "./real_receiver.ts";

let api: TestApi;
let own: RealReceiver;
beforeAll(async () => {
  api = await startApi();
});
beforeEach(async () => {
  await api.db("rate_limits").delete();
  own = await realReceiver(api);
});
afterEach(() => own.receiver.close());
afterAll(() => api.stop());

const minute = (secondsAgo: number) => addSeconds(api.clock.now(), -secondsAgo).toISOString().slice(0, 16);
const insert = (secondsAgo: number, change: object = {}) =>
  insertDelivery(api.db, own.connectionId, { at: addSeconds(api.clock.now(), -secondsAgo), ...change });
const look = (query: Record<string, string> = {}) =>
  own.browser.open(`${own.at("recoveries")}?${new URLSearchParams({ look: "1", ...query })}`);

describe("the page that sends the deliveries of a time range again", () => {
  test("previews the number of deliveries, sends them, and shows the progress", async () => {
    const failed = await insert(3_000);
    const rejected = await insert(2_000, { state: "rejected" });
    for (const state of ["blocked", "delivered"]) await insert(1_000, { state });
    await insert(9_000);
    const empty = await own.browser.open(own.at("recoveries"));
    expect(empty.words).toContain("No range was sent again yet.");
    expect(empty.text.match(/name="(failed|rejected|blocked|delivered)" value="on" checked/g)).toHaveLength(
      3,
    );
    const range = { since: minute(6_000), until: minute(500) };
    const looked = await look({ ...range, failed: "on", rejected: "on" });
    expect(looked.words).toContain("2 deliveries would be sent again.");
    expect(looked.words).toMatch(/Made .* UTC to .* UTC Failed 1 Rejected 1/);
    const begun = await looked.send("recover");
    expect(begun.words).toContain("Sending has begun.");
    expect(begun.words).toContain("Under way");
    expect(begun.text).toContain('hx-trigger="every 3s"');
    expect(own.receiver.requests).toEqual([]);
    while (await stepRecovery({ database: api.db, clock: api.clock }));
    await own.harness.run();
    expect(own.receiver.requests.map(({ deliveryId }) => deliveryId).sort()).toEqual(
      [failed, rejected].sort(),
    );
    const done = await own.browser.open(own.at("recoveries"));
    expect(done.words).toMatch(/Done .* Failed, Rejected 4 2 0/);
    expect(done.text).not.toContain("hx-trigger");
  });

  test("starts one recovery if the form is sent twice, and no second recovery while one is running", async () => {
    await insert(60);
    const looked = await look({ since: minute(3_600), failed: "on" });
    await looked.send("recover");
    expect((await looked.send("recover")).words).toContain("Sending has begun.");
    expect(await api.db("webhook_recoveries").where({ state: "running" }).count()).toEqual([{ count: 1 }]);
    const other = await look({ since: minute(3_600), failed: "on" });
    expect(other.words).toContain("A range is being sent again.");
    expect(() => formIn(other, "recover")).toThrow();
    await api.db("webhook_recoveries").delete();
  });

  test("shows an error in the time range at its field, and does not offer to send anything", async () => {
    const faultOf = async (query: Record<string, string>) => {
      const shown = await look(query);
      expect(() => formIn(shown, "recover")).toThrow();
      return /class="fault"[^>]*>([^<]*)/.exec(shown.text)?.[1];
    };
    expect(await faultOf({ failed: "on" })).toBe("Enter the first moment");
    expect(await faultOf({ since: "then", failed: "on" })).toMatch(/^Give a day and a time/);
    expect(await faultOf({ since: minute(60), until: "soon", failed: "on" })).toMatch(/^Give a day/);
    expect(await faultOf({ since: minute(-600), failed: "on" })).toMatch(/^The first moment must be before/);
    expect(await faultOf({ since: minute(60), until: minute(120), failed: "on" })).toMatch(
      /^The first moment/,
    );
    expect(await faultOf({ since: minute(600) })).toBe("Tick at least one.");
    expect((await look({ since: minute(600), failed: "on" })).words).toContain(
      "There are no such deliveries in this time",
    );
  });

  test("counts up to a hundred deliveries in each state, and says if there are more", async () => {
    for (let nth = 0; nth < 101; nth += 1) await insert(100 + nth);
    const looked = await look({ since: minute(3_600), failed: "on" });
    expect(looked.words).toContain("100 or more deliveries would be sent again.");
  });

  test("links to the callback if nothing can be sent", async () => {
    await own.person.client.post(`/v1/service/connections/${own.connectionId}/callback/pause`);
    const shown = await look({ since: minute(3_600), failed: "on" });
    expect(shown.words).toContain("That needs a callback URL that is neither paused nor suspended.");
    expect(shown.text).not.toContain('name="look"');
  });
});
