import { describe, expect, test } from "vitest";
import { texts } from "../../src/console/texts/texts.ts";
import { certify, proofApi } from "../proofs/application.ts";
import { browserOf } from "./support/console.ts";

const world = proofApi();
const { why } = texts.decisions;
const plain = (text: string | undefined) => text?.replace(/[\u2068\u2069]/g, "");
const EUR = { max_amount: "250", currency: "EUR" };

describe("the line that explains a denial", () => {
  test.each([
    ["max_amount", EUR, { amount: "300", currency: "EUR" }, "Asked for 300 EUR; at most 250 EUR is allowed"],
    ["max_amount", EUR, { amount: "1", currency: "USD" }, "Asked for 1 USD; at most 250 EUR is allowed"],
    [
      "max_speed_mps",
      { max_mps: "1000" },
      { speed_mps: "1200" },
      "Asked at 1,200 m/s; at most 1,000 m/s is allowed",
    ],
    [
      "max_rate",
      { count: "3", window_s: "60" },
      { used: "3" },
      "Was used 3 times before; 3 uses in 1 minute are allowed",
    ],
    [
      "max_rate",
      { count: "1", window_s: "5" },
      { used: "1" },
      "Was used once before; one use in 5 s is allowed",
    ],
    [
      "time_window",
      { start: "09:00", end: "17:00", tz: "Europe/Berlin" },
      { time: "17:01" },
      "Asked at 17:01; allowed from 09:00 to 17:00, by the time of Europe/Berlin",
    ],
    [
      "geo_circle",
      { lat: "52.5", lon: "13.4", radius_m: "1000" },
      { latitude: "52.6", longitude: "13.4" },
      "Asked at 52.6°, 13.4°; allowed within 1,000 m of 52.5°, 13.4°",
    ],
    [
      "geo_bbox",
      { min_lat: "1" },
      { latitude: "2", longitude: "3", altitude_m: "5" },
      "Asked at 2°, 3°, 5 m high; the place must be inside the area of the delegation",
    ],
    [
      "geo_polygon",
      { points: "4" },
      { latitude: "2", longitude: "3" },
      "Asked at 2°, 3°; the place must be inside the area of the delegation",
    ],
    [
      "resource_path",
      { resource_id: "disk", path_prefix: "/a" },
      { resource_id: "disk", path: "/b" },
      "Asked for disk /b; allowed only disk /a",
    ],
  ])("says for %s with %j and %j: %s", (constraint, limit, sent, line) => {
    expect(plain(why({ rule: "constraints", constraint, limit, sent }, false))).toBe(line);
  });

  test("says whether a value is rounded, hidden, or was not sent", () => {
    const of = (sent: Record<string, string>, values: "rounded" | "hashed", isUnverifiable = false) =>
      plain(why({ rule: "constraints", constraint: "max_amount", limit: EUR, sent, values }, isUnverifiable));
    const limit = "at most 250 EUR is allowed";
    expect(of({ amount: "260", currency: "EUR" }, "rounded")).toBe(`Asked for about 260 EUR; ${limit}`);
    expect(of({ amount: "hmac-sha256:00", currency: "EUR" }, "hashed")).toBe(
      `The value that was sent is not shown; ${limit}`,
    );
    expect(of({ currency: "EUR" }, "rounded", true)).toBe(
      `The application did not send what this limit needs; ${limit}`,
    );
  });

  test("isolates the direction of strangers' texts, and has no line for a constraint that it does not know", () => {
    const sent = { resource_id: "\u05d0 300 EUR" };
    const limit = { resource_id: "disk" };
    expect(why({ rule: "constraints", constraint: "resource_path", limit, sent }, false)).toBe(
      "Asked for \u2068\u05d0 300 EUR\u2069; allowed only \u2068disk\u2069",
    );
    for (const constraint of ["acme:x", "constructor", undefined]) {
      expect(
        why({ rule: "constraints", ...(constraint !== undefined && { constraint }) }, false),
      ).toBeUndefined();
    }
  });
});

async function denied(scope: string, context: object, constraint: object) {
  const app = await world.application([]);
  const certId = await certify(app, ["data:read"], { constraints: [constraint] });
  const { body } = await app.verify(await app.proof(), { required_scope: scope, context });
  expect(body.decision).toBe("deny");
  const { receipt_id } = body.receipt as { receipt_id: string };
  return { app, certId, eventId: receipt_id, browser: browserOf(world.api, app.person.client) };
}

const AMOUNT = { type: "max_amount", max_amount: 250, currency: "EUR" };

describe("a denied amount", () => {
  test("has its line on every list, and a button that opens a request with a wider limit", async () => {
    const { app, certId, eventId, browser } = await denied(
      "data:read",
      { amount: 304, currency: "EUR" },
      AMOUNT,
    );
    const line = "Asked for about 300 EUR; at most 250 EUR is allowed";
    for (const path of [
      "/console",
      "/console/history",
      `/console/delegations/${certId}`,
      `/console/history/${eventId}`,
    ]) {
      expect([path, plain((await browser.open(path)).words)]).toEqual([path, expect.stringContaining(line)]);
    }
    const event = await browser.open(`/console/history/${eventId}`);
    expect(event.words).toContain("Adjust");
    const ask = `/console/agents/${app.agentId}/ask?denied=${eventId}`;
    expect(event.text).toContain(`href="${ask}"`);
    const form = await browser.open(ask);
    expect(form.words).toContain("the amount is at most 310 EUR");
    const sent = await form.send("ask", { requested_scope: ["data:read"] });
    expect(sent.words).toContain("Asked. The request waits for a decision.");
    expect(sent.words).toContain("Only if the amount is at most 310 EUR.");
  });

  test("has no button if the value is not known or is in another currency", async () => {
    const { eventId, browser } = await denied("data:read", { amount: 1, currency: "USD" }, AMOUNT);
    expect((await browser.open(`/console/history/${eventId}`)).words).not.toContain("Adjust");
    const silent = await denied("data:read", {}, AMOUNT);
    const words = (await silent.browser.open(`/console/history/${silent.eventId}`)).words;
    expect(words).toContain("The application did not send what this limit needs");
    expect(words).not.toContain("Adjust");
  });
});

test("a denied scope has a button that opens a request for it, with the limits that the delegation has", async () => {
  const { app, eventId, browser } = await denied("data:share", { amount: 1, currency: "EUR" }, AMOUNT);
  const form = await browser.open(`/console/agents/${app.agentId}/ask?denied=${eventId}`);
  expect(form.words).toContain("the amount is at most 250 EUR");
  const ticked = [...form.text.matchAll(/value="([^"]+)"[^>]*checked/g)].map(([, scope]) => scope);
  expect(ticked.sort()).toEqual(["data:read", "data:share"]);
});

test("a request for what was missing is not found for another account's denial or another agent", async () => {
  const { eventId } = await denied("data:share", {}, AMOUNT);
  const other = await denied("data:share", {}, AMOUNT);
  const form = await other.browser.open(`/console/agents/${other.app.agentId}/ask?denied=${eventId}`);
  expect(form.status).toBe(404);
});
