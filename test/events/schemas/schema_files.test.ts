import { describe, expect, test } from "vitest";
import { accountEventKinds, eventKinds } from "../../../src/events/kinds.ts";
import { historyEventType } from "../../../src/history/history_entry.ts";
import { type SchemaChecker, schemaChecker } from "../../support/schema_checker.ts";
import { currentSchemas, publishedSchemas } from "../../support/schema_files.ts";

type Schema = {
  $id: string;
  title: string;
  description: string;
  properties?: Record<string, object>;
  required?: string[];
  examples?: Record<string, unknown>[];
  $defs?: { headers: { properties: object; required: string[]; examples?: object[] } };
};

const texts = await publishedSchemas();
const schemas = Object.entries(texts).map(([name, text]) => [name, JSON.parse(text)] as [string, Schema]);
const checker: SchemaChecker = await schemaChecker();
const KINDS = [...Object.keys(eventKinds), ...Object.keys(accountEventKinds), ...historyEventType.options];
const withValues = schemas.filter(([name]) => name !== "dead_letter.schema.json");

test("docs/events matches the definitions of events", () => {
  expect(texts, "run `npm run schemas` to renew docs/events").toEqual(currentSchemas());
});

test("docs/events has a file for every kind of event, for each body with secrets, and for dead letters", () => {
  const bodies = Object.entries(eventKinds)
    .filter(([, { secrets }]) => secrets.length > 0)
    .map(([kind]) => `${kind}.webhook.schema.json`);
  expect(bodies).toEqual(["connection.created.webhook.schema.json"]);
  expect(Object.keys(texts).sort()).toEqual(
    [...KINDS.map((kind) => `${kind}.schema.json`), ...bodies, "dead_letter.schema.json"].sort(),
  );
});

test("each schema has a description, and an id that names no host and is unique", () => {
  for (const [, { $id, title, description }] of schemas) {
    expect($id).toMatch(/^urn:deputize:(event|webhook|dead_letter)[a-z_.:]*:v1$/);
    expect(title.length * description.length).toBeGreaterThan(0);
  }
  expect(new Set(schemas.map(([, { $id }]) => $id)).size).toBe(schemas.length);
});

test("only schemas of webhook bodies contain secrets", () => {
  for (const [name, text] of Object.entries(texts)) {
    expect([name, /"(api_key|webhook_signing_secret)"/.test(text)]).toEqual([
      name,
      name.endsWith(".webhook.schema.json"),
    ]);
  }
});

test("only records of the history have no sequence number", () => {
  for (const [name, { $defs }] of schemas) {
    if ($defs === undefined) continue;
    const numbered = !name.startsWith("proof.");
    expect([name, Object.hasOwn($defs.headers.properties, "ce_sequence")]).toEqual([name, numbered]);
    expect($defs.headers.required.includes("ce_sequence")).toBe(numbered);
  }
});

test("the examples of headers match their schemas", () => {
  for (const [name, { $defs }] of schemas) {
    for (const example of $defs?.headers.examples ?? []) {
      expect(checker.faultsBy(name, example, "#/$defs/headers")).toEqual([]);
    }
  }
});

test("a dead letter's headers may lack the Kafka position and the trace, but no other header", () => {
  const headers = JSON.parse(texts["dead_letter.schema.json"] ?? "").$defs.headers;
  const optional = Object.keys(headers.properties).filter((name) => !headers.required.includes(name));
  expect(optional).toEqual([
    "traceparent",
    "deputize_origin_topic",
    "deputize_origin_partition",
    "deputize_origin_offset",
  ]);
});

describe.each(withValues)("%s", (name, { properties = {}, required = [], examples = [] }) => {
  test("has examples that match it and contain every member", () => {
    expect(examples.length).toBeGreaterThan(0);
    for (const example of examples) expect(checker.faultsBy(name, example)).toEqual([]);
    const shown = new Set(examples.flatMap((example) => Object.keys(example)));
    expect([...shown].sort()).toEqual(Object.keys(properties).sort());
  });

  test("accepts additional members everywhere", () => {
    expect(texts[name]).not.toMatch(/"(additional|unevaluated)Properties"/);
    const [example = {}] = examples;
    expect(checker.faultsBy(name, { ...example, later: { any: "thing" } })).toEqual([]);
  });

  test.each(required)("rejects a value without %s", (member) => {
    const { [member]: _, ...rest } = examples[0] ?? {};
    expect(checker.faultsBy(name, rest)).toHaveLength(1);
  });

  test("rejects a value that names a different kind", () => {
    const word = Object.hasOwn(properties, "event") ? "event" : "event_type";
    expect(checker.faultsBy(name, { ...examples[0], [word]: "another.kind" })).toHaveLength(1);
  });
});
