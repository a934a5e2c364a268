import { Gauge, type Registry } from "prom-client";
import { type Delegation, kinds } from "../kinds.ts";
import type { Resources } from "../resources.ts";
import { conditionOf } from "../status/conditions.ts";

/** Series of single Delegations that one scrape gets at most: those that end first. */
const MAX_EXPIRIES = 10_000;

/** What there is, counted when it is asked for: nothing while `led` gives nothing. */
export function registerObjectMetrics(
  registry: Registry,
  led: () => Pick<Resources, "list"> | undefined,
): void {
  new Gauge({
    name: "deputize_operator_objects",
    help: "Objects by kind and the reason of their condition Ready, at who leads",
    labelNames: ["kind", "reason"],
    registers: [registry],
    collect() {
      this.reset();
      const resources = led();
      for (const kind of resources === undefined ? [] : kinds) {
        for (const { status } of resources?.list(kind) ?? []) {
          this.inc({ kind, reason: conditionOf(status, "Ready")?.reason ?? "Unknown" });
        }
      }
    },
  });
  new Gauge({
    name: "deputize_delegation_expiry_timestamp_seconds",
    help: "When the certificate of a Delegation in force ends, in Unix seconds; the 10,000 that end first",
    labelNames: ["namespace", "name"],
    registers: [registry],
    collect() {
      this.reset();
      const ends = (led()?.list("Delegation") ?? []).flatMap(endOf);
      ends.sort((left, right) => left.end - right.end);
      for (const { end, ...labels } of ends.slice(0, MAX_EXPIRIES)) this.set(labels, end);
    },
  });
}

function endOf({ metadata: { namespace, name }, status }: Delegation) {
  const end = Math.floor(Date.parse(status.expiresAt ?? "") / 1000);
  return status.certStatus === "Active" && Number.isFinite(end) ? [{ namespace, name, end }] : [];
}
