import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type DevStack, startDevStack } from "../support/dev_stack.ts";
import { type KnownMetric, knownMetrics, type Part } from "../support/known_metrics.ts";

const PARTS = ["api", "worker", "operator", "keyvault"] as const;
/** These metrics require a worker with EVENTS=kafka or an operator in a cluster. */
const ELSEWHERE = [
  "deputize_kafka_consumer_lag",
  "deputize_operator_synced",
  "deputize_operator_watch_silence_seconds",
  "deputize_operator_lists_total",
  "deputize_operator_watch_failures_total",
];
let stack: DevStack;
const pages = new Map<Part, string>();

beforeAll(async () => {
  stack = await startDevStack();
  const { parts } = JSON.parse(await readFile(join(stack.folder, "run.json"), "utf8"));
  for (const part of PARTS) {
    const environment = await readFile(`/proc/${parts[part].pid}/environ`, "utf8");
    const [, port] = /(?:^|\0)(?:KEYVAULT_)?HEALTH_PORT=(\d+)/.exec(environment) ?? [];
    pages.set(part, await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
  }
});
afterAll(() => stack?.stop());

const of = (part: Part) => knownMetrics().filter(({ parts }) => parts.includes(part));
const isOfNode = ({ name }: Pick<KnownMetric, "name">) => /^(?:process|nodejs)_/.test(name);

test.each(PARTS)("%s exposes exactly its known metrics", (part) => {
  const shown = [...(pages.get(part) ?? "").matchAll(/^# TYPE (\S+) (\S+)$/gm)]
    .map(([, name = "", type = ""]) => ({ name, type }))
    .filter((metric) => !isOfNode(metric));
  const known = of(part)
    .filter((metric) => !isOfNode(metric) && !ELSEWHERE.includes(metric.name))
    .map(({ name, type }) => ({ name, type }));
  const byName = (one: { name: string }, other: { name: string }) => one.name.localeCompare(other.name);
  expect(shown.sort(byName)).toEqual(known.sort(byName));
});

test.each(PARTS)("%s exposes each metric with its known labels", (part) => {
  const known = new Map(of(part).map(({ name, labels }) => [name, labels]));
  for (const [, series = "", text = ""] of (pages.get(part) ?? "").matchAll(/^([a-z_0-9]+)\{(.*)\} /gm)) {
    const name = known.has(series) ? series : series.replace(/_(?:count|sum|bucket)$/, "");
    const labels = [...text.matchAll(/(\w+)="/g)]
      .map(([, label = ""]) => label)
      .filter((label) => label !== "le");
    if (!isOfNode({ name })) expect(labels.sort(), series).toEqual(known.get(name)?.toSorted());
  }
});

test("the metrics after a tour contain no id, address or key in a label", () => {
  for (const [part, text] of pages) {
    const values = [...text.matchAll(/(?<!\ble)="([^"]*)"/g)].map(([, value = ""]) => value);
    const telling = values.filter((value) => /@|[0-9a-f]{12,}|dpz_|whsec_|cert-|req-|:\/\//.test(value));
    expect(telling, part).toEqual([]);
  }
});

test("the metrics after a tour count the tour's actions, and each part is ready", () => {
  const api = pages.get("api") ?? "";
  expect(api).toMatch(/^deputize_proof_decisions_total\{decision="allow"\} [1-9]/m);
  expect(api).toMatch(/^deputize_http_errors_total\{code="session_context_mismatch"\} [1-9]/m);
  expect(api).toMatch(/^deputize_vault_certificate_expiry_timestamp_seconds 1\d{9}$/m);
  for (const part of ["api", "worker", "operator"] as const) {
    expect(pages.get(part)).toContain(`\ndeputize_ready{role="${part}"} 1\n`);
  }
  const vault = pages.get("keyvault") ?? "";
  expect(vault.match(/^keyvault_not_ready\{reason="\w+"\} 0$/gm)).toHaveLength(5);
  expect(vault).toMatch(
    /^keyvault_call_seconds_count\{call="POST \/v1\/keys\/:id\/sign\/challenge",result="answered"\} [1-9]/m,
  );
});
