import { expect, test } from "vitest";
import type { Known } from "./load.ts";
import { compare, type Stored } from "./load_differences.ts";

/** Returns a correct run: a certificate that was approved and revoked, and an allowed proof. */
function goodRun(): { known: Known; stored: Stored } {
  const got = { faults: [], connectionId: "c", isAccepted: true };
  return {
    known: {
      calls: [],
      connections: ["c"],
      decisions: new Map([["proof", [{ receiptId: "receipt", decision: "allow" }]]]),
      unanswered: new Set(),
      requests: new Set(["request"]),
      certificates: new Map([["cert", "request"]]),
      revoked: new Set(["cert"]),
      uncertain: { requests: 0, approvals: new Set() },
      allowedAfterRevocation: [],
      refusals: new Map(),
      arrivals: new Map(),
      received: [
        { ...got, deliveryId: "1", event: "connection.created", about: "c" },
        { ...got, deliveryId: "2", event: "delegation.approved", about: "request" },
        { ...got, deliveryId: "3", event: "delegation.revoked", about: "cert" },
      ],
    },
    stored: {
      requests: new Set(["request"]),
      certificates: new Map([["cert", { request: "request", status: "revoked" }]]),
      decisions: new Map([["receipt", "allow"]]),
      deliveries: ["1", "2", "3"].map((id) => ({ id, connectionId: "c", attempts: 1 })),
    },
  };
}

function differing(change: (run: ReturnType<typeof goodRun>) => unknown = () => undefined): string[] {
  const run = goodRun();
  change(run);
  return Object.entries(compare(run.known, run.stored)).flatMap(([name, found]) =>
    found.length > 0 ? [name] : [],
  );
}

test("compare() finds nothing in a correct run", () => {
  expect(differing()).toEqual([]);
});

test("compare() explains an unseen decision by a lost answer", () => {
  const lose = ({ known }: ReturnType<typeof goodRun>) => {
    known.decisions.set("proof", []);
    known.unanswered.add("proof");
  };
  expect(differing(lose)).toEqual([]);
});

test.each<[string, (run: ReturnType<typeof goodRun>) => unknown]>([
  ["lost requests", ({ known }) => known.requests.add("other")],
  ["lost certificates", ({ known }) => known.certificates.set("other", "request")],
  ["lost revocations", ({ known }) => known.revoked.add("other")],
  ["invented requests", ({ stored }) => stored.requests.add("other")],
  ["lost decisions", ({ stored }) => stored.decisions.set("receipt", "deny")],
  ["invented decisions", ({ stored }) => stored.decisions.set("other", "allow")],
  [
    "proofs decided twice",
    ({ known }) => known.decisions.get("proof")?.push({ receiptId: "receipt", decision: "allow" }),
  ],
  ["proofs allowed after the revocation", ({ known }) => known.allowedAfterRevocation.push("proof")],
  ["lost events", ({ known }) => known.received.pop()],
  ["connections with events out of order", ({ known }) => known.received.reverse()],
  ["wrong signatures", ({ known }) => known.received[0]?.faults.push("signature")],
])("compare() finds %s", (name, change) => {
  expect(differing(change)).toEqual([name]);
});

test.each<[string, (run: ReturnType<typeof goodRun>) => unknown]>([
  [
    "invented certificates",
    ({ stored }) => stored.certificates.set("x", { request: "x", status: "approved" }),
  ],
  ["invented events", ({ known }) => Object.assign(known.received[1] ?? {}, { about: "other" })],
  [
    "events with several ids",
    ({ known }) => known.received.push({ ...(known.received[2] as Known["received"][0]), deliveryId: "4" }),
  ],
  [
    "deliveries that are not stored",
    ({ known }) => Object.assign(known.received[0] ?? {}, { deliveryId: "4" }),
  ],
])("compare() finds %s, among other differences", (name, change) => {
  expect(differing(change)).toContain(name);
});
