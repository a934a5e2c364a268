import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readiness } from "../../../src/operator/reconcile/conditions.ts";
import { type Reason, reasons } from "../../../src/operator/reconcile/ready_reasons.ts";

const CLUSTER_ONLY = [
  "Issuing",
  "NamespaceNotSelected",
  "AdoptionNotConfirmed",
  "ApprovalPolicyMissing",
  "ApproverNotLinked",
  "FourEyesRequired",
  "ClusterRefused",
];
const names = Object.keys(reasons) as Reason[];

describe("reasons of the condition Ready", () => {
  test("each occur in a test with a folder, except those that only a cluster has", async () => {
    const folder = join(import.meta.dirname, "..");
    const files = (await readdir(folder)).filter((file) => file.endsWith(".test.ts"));
    const texts = await Promise.all(files.map((file) => readFile(join(folder, file), "utf8")));
    const reached = texts.flatMap((text) => [...text.matchAll(/reaches\(\s*"\w+",\s*"\w+",\s*"(\w+)"/g)]);
    const found = new Set(reached.map(([, reason]) => reason));
    expect(names.filter((reason) => !found.has(reason)).sort()).toEqual(CLUSTER_ONLY.sort());
  });

  test("have the same meaning in the documentation", async () => {
    const docs = await readFile(join(import.meta.dirname, "../../../docs/operator.md"), "utf8");
    for (const reason of names) expect(docs).toContain(`| \`${reason}\` | ${reasons[reason].meaning} |`);
  });

  test("set none of Ready, Reconciling and Stalled after an end that the spec requested", () => {
    const facts = readiness({ reason: "Revoked", message: "", asAsked: true });
    expect(facts.map(({ status }) => status)).toEqual(["False", "False", "False"]);
  });

  test.each(names)("set at most one of Ready, Reconciling and Stalled: %s", (reason) => {
    const facts = readiness({ reason, message: "" });
    expect(facts.map(({ type }) => type)).toEqual(["Ready", "Reconciling", "Stalled"]);
    expect(facts.filter(({ status }) => status === "True")).toHaveLength(reason === "Suspended" ? 0 : 1);
    expect(facts[0]?.status === "True").toBe(reason === "Active");
  });
});
