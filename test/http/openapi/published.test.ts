import { describe, expect, test } from "vitest";
import { ANY_CALL } from "../../../src/http/openapi/route_errors.ts";
import { SCHEMA_NAMES } from "../../../src/http/openapi/schema_names.ts";
import { contract, published } from "../walk/documented.ts";

type Json = Record<string, unknown>;
type Media = { schema: Json; example?: unknown };
type Response = { content?: Record<string, Media>; "x-error-codes"?: string[] };
type Operation = {
  operationId: string;
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, Response>;
};

const components = published.components as Record<string, Record<string, Json>>;

/** Returns the value with the component in place of each reference. */
function expanded(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(expanded);
  if (typeof value !== "object" || value === null) return value;
  const { $ref, ...rest } = value as Json;
  if (typeof $ref === "string") {
    const [, , kind = "", name = ""] = $ref.split("/");
    return { ...(expanded(components[kind]?.[name]) as Json), ...rest };
  }
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, expanded(member)]));
}

const operations = Object.values(published.paths as Record<string, Record<string, Operation>>).flatMap(
  (methods) => Object.values(methods),
);
const named = (id: string) => operations.find(({ operationId }) => operationId === id) as Operation;
const schemaOf = (part?: { content?: Record<string, Media> }) => part?.content?.["application/json"]?.schema;

describe("the published OpenAPI document", () => {
  test("has at most 250 kB", () => {
    expect(Buffer.byteLength(JSON.stringify(published))).toBeLessThanOrEqual(250_000);
  });

  test("names its resources", () => {
    expect(Object.keys(components.schemas ?? {})).toEqual(
      expect.arrayContaining([
        ...["Platform", "Agent", "Connection", "DelegationRequest", "Certificate", "Challenge", "Proof"],
        ...["Operation", "Decision", "Receipt", "Error", "ErrorDetails"],
      ]),
    );
    const unused = Object.values(SCHEMA_NAMES).filter((name) => components.schemas?.[name] === undefined);
    expect(unused).toEqual([]);
  });

  test("refers to a schema for every object", () => {
    const { schemas = {}, ...others } = components;
    const inline = JSON.stringify([published.paths, others, Object.values(schemas).map(membersOf)]);
    expect(inline).not.toMatch(/"type":"object"[^{}]*"properties":/);
    const used = new Set(
      [...JSON.stringify(published).matchAll(/#\/components\/(\w+)\/(\w+)/g)].map(([ref]) => ref),
    );
    const all = ["schemas", "headers", "parameters", "responses"].flatMap((kind) =>
      Object.keys(components[kind] ?? {}).map((name) => `#/components/${kind}/${name}`),
    );
    expect([...used].sort()).toEqual(all.sort());
  });

  function membersOf({ properties, anyOf }: Json): unknown {
    return [properties, anyOf];
  }

  test("gives each operation its own request", () => {
    expect(schemaOf(named("revoke_delegation").requestBody)).toEqual({
      $ref: "#/components/schemas/RevokeDelegationBody",
    });
    for (const { operationId, requestBody } of operations) {
      const refs = [...JSON.stringify(schemaOf(requestBody) ?? {}).matchAll(/schemas\/(\w+)Body/g)];
      const name = operationId.replaceAll(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase());
      for (const [, owner = ""] of refs) expect(owner).toBe(name);
    }
  });

  test("describes the same requests, responses and error codes as the full document", () => {
    expect(operations.length).toBe(contract.operations.length);
    for (const full of contract.operations) {
      const short = expanded(named(full.operationId)) as Operation;
      expect(short.requestBody).toEqual(full.requestBody);
      for (const [status, response] of Object.entries(full.responses)) {
        expectSame(short.responses[status] ?? short.responses.default, response, status);
      }
      const left = Object.entries(full.responses).filter(([status]) => short.responses[status] === undefined);
      const codes = left.flatMap(([, response]) => response["x-error-codes"] ?? []);
      expect(ANY_CALL).toEqual(expect.arrayContaining(codes));
    }
  });

  function expectSame(short: Response | undefined, full: Response, status: string) {
    expect(short?.["x-error-codes"] ?? []).toEqual(expect.arrayContaining(full["x-error-codes"] ?? []));
    if (status < "300") expect(schemaOf(short)).toEqual(schemaOf(full));
  }

  test("has the same parameters as the full document, except X-Request-Id", () => {
    for (const { operationId, parameters } of contract.operations) {
      const { parameters: short } = expanded(named(operationId)) as unknown as { parameters: unknown[] };
      expect(short).toEqual(parameters.filter(({ name }) => name !== "X-Request-Id"));
    }
  });

  test("has a contact, a license and an allowed decision that a client may act on", () => {
    expect(published.info).toMatchObject({
      contact: { url: expect.any(String) },
      license: { identifier: "Apache-2.0" },
    });
    const { content } = named("verify_proof").responses[200] ?? {};
    expect(content?.["application/json"]?.example).toMatchObject({
      decision: "allow",
      decision_reason: "authorized",
      valid: true,
      replayed: false,
      error_reason: null,
    });
  });
});
