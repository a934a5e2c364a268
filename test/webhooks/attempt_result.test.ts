import { expect, test } from "vitest";
import {
  isDeferred,
  isStrained,
  resultOf,
  type SendErrorCode,
  type Sent,
} from "../../src/webhooks/retries_and_suspension.ts";

const answer = (status: number): Sent => ({ status, retryAfter: undefined, excerpt: Buffer.alloc(0) });
const fault = (name: SendErrorCode): Sent => ({ fault: name, detail: "" });
const statuses = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n);

test("every 2xx is a delivery", () => {
  for (const status of statuses(200, 299)) {
    expect([status, resultOf(answer(status))]).toEqual([status, "delivered"]);
  }
});

test("every redirect is a failed attempt", () => {
  for (const status of statuses(300, 399)) {
    expect([status, resultOf(answer(status))]).toEqual([status, "failed"]);
  }
});

test("410 means that the receiver is gone", () => expect(resultOf(answer(410))).toBe("gone"));

test("408, 425, 429 ask to come again, every other 4xx is a rejection", () => {
  for (const status of statuses(400, 499).filter((each) => each !== 410)) {
    const expected = [408, 425, 429].includes(status) ? "failed" : "rejected";
    expect([status, resultOf(answer(status))]).toEqual([status, expected]);
  }
  expect(statuses(100, 599).filter((status) => isDeferred(answer(status)))).toEqual([408, 425, 429]);
  expect(isDeferred(fault("timeout"))).toBe(false);
});

test("every 5xx and every unknown status is tried again", () => {
  for (const status of statuses(500, 999)) {
    expect([status, resultOf(answer(status))]).toEqual([status, "failed"]);
  }
});

test("no answer is tried again, a forbidden address is not", () => {
  for (const name of ["timeout", "dns", "connect", "network", "unprepared"] as const) {
    expect([name, resultOf(fault(name))]).toEqual([name, "failed"]);
  }
  expect(resultOf(fault("forbidden_address"))).toBe("blocked");
});

test("timeouts, 502, 503 and 504 are signs of strain, and nothing else is", () => {
  const strained = statuses(100, 599).filter((status) => isStrained(answer(status)));
  expect(strained).toEqual([502, 503, 504]);
  const faults = ["timeout", "dns", "connect", "network", "forbidden_address", "unprepared"] as const;
  expect(faults.filter((name) => isStrained(fault(name)))).toEqual(["timeout"]);
});
