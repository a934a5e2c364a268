import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { readiness, withFacts } from "../../src/operator/reconcile/conditions.ts";
import {
  progressOf,
  type Reason,
  reasons,
  type StatusReason,
} from "../../src/operator/reconcile/ready_reasons.ts";

import { goProgram } from "../support/go_program.ts";

const ROOT = join(import.meta.dirname, "../..");
const EXAMPLES = ["argocd_health.lua", "flux_health.yaml"].map((file) => join(ROOT, "docs/examples", file));
const program = await goProgram({
  name: "health",
  source: "./health",
  folder: "health",
  what: "kstatus, Argo CD's Lua engine and CEL",
});
if (program.missing !== undefined) console.error(`SKIPPED, missing: ${program.missing}`);

type Row = { name: string; verdict: StatusReason };

const rows: Row[] = (Object.keys(reasons) as Reason[]).flatMap((reason): Row[] => {
  const row = { name: `\`${reason}\``, verdict: { reason, message: "because" } };
  if (reason === "Revoked") {
    return [{ name: `${row.name}, by \`spec.revoked\``, verdict: { ...row.verdict, asAsked: true } }, row];
  }
  if (reason === "Expired") {
    return [{ name: `${row.name}, the certificate`, verdict: { ...row.verdict, asAsked: true } }, row];
  }
  return [row];
});

function objectOf(verdict: StatusReason, observedGeneration = 2): object {
  const at = { generation: 2, now: new Date("2026-01-01T00:00:00Z") };
  return {
    apiVersion: "deputize.io/v1alpha1",
    kind: "Delegation",
    metadata: { name: "help", namespace: "shop", generation: 2 },
    spec: {},
    status: { observedGeneration, conditions: withFacts([], readiness(verdict), at) },
  };
}

async function healthOf(objects: object[]): Promise<string[][]> {
  const child = spawn(program.path ?? "", EXAMPLES, { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(objects.map((object) => `${JSON.stringify(object)}\n`).join(""));
  const [output] = await Promise.all([text(child.stdout), once(child, "exit")]);
  return output
    .trim()
    .split("\n")
    .map((line) => line.split(" "));
}

describe.skipIf(program.missing !== undefined)("the health of an object in other tools", () => {
  test("matches the documentation for every reason", async () => {
    const found = await healthOf(rows.map(({ verdict }) => objectOf(verdict)));
    const lines = rows.map(({ name, verdict }, n) => {
      const conditions = readiness(verdict).map(({ status }) => status);
      const event = progressOf(verdict) === "stuck" ? "Warning" : "Normal";
      return `| ${[name, ...conditions, ...(found[n] ?? []), event].join(" | ")} |`;
    });
    const page = await readFile(join(ROOT, "docs/operator.md"), "utf8");
    const table =
      page.split("| reason | Ready | Reconciling | Stalled | kstatus | Argo CD | Flux | Event |\n")[1] ?? "";
    const written = table.split("\n\n")[0]?.split("\n").slice(1);
    expect(written).toEqual(lines);
  });

  test("shows no failure while a decision is pending, while the object is suspended, or after a requested end", async () => {
    const wanted: StatusReason[] = [
      { reason: "AwaitingApproval", message: "" },
      { reason: "Suspended", message: "" },
      { reason: "Revoked", message: "", asAsked: true },
      { reason: "Expired", message: "", asAsked: true },
    ];
    for (const found of await healthOf(wanted.map((verdict) => objectOf(verdict)))) {
      expect(found).not.toContain("Failed");
      expect(found).not.toContain("Degraded");
    }
  });

  test("shows progress until the operator has reconciled the current version of the object", async () => {
    const unseen = { ...objectOf({ reason: "Active", message: "" }), status: undefined };
    const active = objectOf({ reason: "Active", message: "" }, 1);
    expect(await healthOf([active, unseen])).toEqual([
      ["InProgress", "Progressing", "InProgress"],
      ["Current", "Progressing", "InProgress"],
    ]);
  });
});
