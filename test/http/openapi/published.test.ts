import { describe, expect, test } from "vitest";
import { DEFAULT_CODES } from "../../../src/http/openapi/published.ts";
import { SCHEMA_NAMES } from "../../../src/http/openapi/schema_names.ts";
import { contract, published } from "../walk/documented.ts";

type Json = Record<string, unknown>;
type Media = { schema: Json; example?: unknown };
type Response = { content?: Record<string, Media>; "x-error-codes"?: string[] };
type Operation = {
  operationId: string;
  summary: string;
  description: string;
  tags: string[];
  security?: Json[];
  "x-roles"?: string[];
  parameters?: Json[];
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

type Path = { parameters?: Json[] } & Record<string, Operation>;
const operations = Object.values(published.paths as Record<string, Path>).flatMap(
  ({ parameters: common = [], ...methods }) =>
    Object.values(methods).map(({ parameters = [], ...rest }) => ({
      ...rest,
      parameters: [...common, ...parameters],
    })),
);
/** The operations that the document describes: no paths of any length, and one of several equal methods. */
const expressible = contract.operations.filter(
  ({ path, operationId }) =>
    !path.endsWith("/{target}") && !/^ext_auth_(post|put|patch|delete)$/.test(operationId),
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

  test("has no schema with a name that a Go client generates for another one, such as NewAgent or NullableAgent", () => {
    const names = Object.keys(components.schemas ?? {});
    const generated = names.flatMap((name) => [`New${name}`, `Nullable${name}`]);
    expect(names.filter((name) => generated.includes(name))).toEqual([]);
  });

  test("refers to a schema for every object", () => {
    const { schemas = {}, ...others } = components;
    const inline = JSON.stringify([published.paths, others, Object.values(schemas).map(membersOf)]);
    expect(inline).not.toMatch(/"type":"object"[^{}]*"properties":/);
    const used = new Set(
      [...JSON.stringify(published).matchAll(/#\/components\/(\w+)\/(\w+)/g)].map(([ref]) => ref),
    );
    const all = ["schemas", "headers", "links", "parameters", "responses"].flatMap((kind) =>
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
    expect(operations.map(({ operationId }) => operationId)).toEqual(
      expressible.map(({ operationId }) => operationId),
    );
    for (const full of expressible) {
      const short = expanded(named(full.operationId)) as Operation;
      expect(plain({ required: false, ...short.requestBody })).toEqual(
        plain({ required: false, ...full.requestBody }),
      );
      for (const [status, response] of Object.entries(full.responses)) {
        expectSame(short.responses[status] ?? short.responses.default, response, status);
      }
      const left = Object.entries(full.responses).filter(([status]) => short.responses[status] === undefined);
      const codes = left.flatMap(([, response]) => response["x-error-codes"] ?? []);
      expect(DEFAULT_CODES).toEqual(expect.arrayContaining(codes));
    }
  });

  function expectSame(short: Response | undefined, full: Response, status: string) {
    const described = [...(short?.["x-error-codes"] ?? []), ...DEFAULT_CODES];
    expect(described).toEqual(expect.arrayContaining(full["x-error-codes"] ?? []));
    if (status < "300") expect(plain(schemaOf(short))).toEqual(plain(schemaOf(full)));
  }

  /** Returns a schema without what the two documents write in different ways. */
  function plain(part: unknown): unknown {
    return JSON.parse(JSON.stringify(part ?? null), (_, value) => {
      if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
      const { additionalProperties, enum: values, const: only, anyOf, type, ...rest } = value;
      const known = rest["x-extensible-enum"] ?? values ?? (only === undefined ? undefined : [only]);
      const forms: Json[] = (anyOf ?? []).filter((form: Json) => Object.keys(form).length > 0);
      const [form] = forms.length === 1 ? forms : [];
      return { ...form, ...rest, ...(known !== undefined && { "x-extensible-enum": known }) };
    });
  }

  test("keeps requests strict, and lets responses grow", () => {
    for (const operation of operations) {
      for (const [status, response] of Object.entries(expanded(operation.responses) as object)) {
        const text = JSON.stringify(schemaOf(response) ?? {});
        expect([
          operation.operationId,
          status,
          text.match(/"additionalProperties":false|"enum":|"const":/),
        ]).toEqual([operation.operationId, status, null]);
        const objects = text.match(/"properties":/g)?.length ?? 0;
        expect(text.match(/"additionalProperties":true/g)?.length ?? 0).toBe(objects);
      }
    }
    const { properties = {} } = components.schemas?.Decision ?? {};
    expect(properties).toMatchObject({
      decision: { type: "string", "x-extensible-enum": ["allow", "deny", "indeterminate"] },
      decision_reason: { $ref: "#/components/schemas/DecisionReason" },
    });
    expect(components.schemas?.DecisionReason).toMatchObject({
      type: "string",
      "x-extensible-enum": expect.arrayContaining(["authorized"]),
    });
    expect(components.schemas?.RecoverDeliveriesBody).toMatchObject({
      properties: { states: { items: { enum: expect.arrayContaining(["failed"]) } } },
    });
  });

  test("has no type that generators cannot express", () => {
    const text = JSON.stringify(published);
    expect(text.match(/.{60}"type":\["\w+","(?!null).{60}/)).toBe(null);
    expect(text.match(/(?<!},{)"type":"null"/)).toBe(null);
    expect(components.schemas).toMatchObject({
      VerifyProofBody: { properties: { proof_bundle: { description: expect.any(String) } } },
      CreateAgentBody: { properties: { public_key: { description: expect.any(String) } } },
    });
    expect(components.schemas?.Platform).toMatchObject({
      properties: { declared_by: { anyOf: [{ $ref: expect.any(String) }, { type: "null" }] } },
    });
  });

  test("describes each operation, and links it to the next ones", () => {
    for (const { operationId, summary, description, tags } of operations) {
      const text = expect.stringMatching(/^.+$/);
      expect([operationId, summary, description, tags]).toEqual([operationId, text, text, [text]]);
    }
    const linked = (id: string) => {
      const { links } = expanded(
        named(id).responses[202] ??
          named(id).responses[201] ??
          named(id).responses[200] ??
          named(id).responses[303],
      ) as { links?: Json };
      return links;
    };
    expect(linked("create_challenge")).toMatchObject({ present_proof: { operationId: "present_proof" } });
    expect(linked("present_proof")).toMatchObject({ verify_proof: { operationId: "verify_proof" } });
    expect(linked("request_delegation")).toMatchObject({
      get_delegation_request: { parameters: { request_id: "$response.body#/request_id" } },
    });
    const ids = new Set(operations.map(({ operationId }) => operationId));
    for (const { operationId } of operations) {
      for (const name of Object.keys(linked(operationId) ?? {})) expect(ids).toContain(name);
    }
  });

  test("shows an example of each request, and of each answer that is neither a list nor free-form", () => {
    const json = (body?: { content?: Record<string, Media> }) => body?.content?.["application/json"];
    const bodies = operations
      .map(({ requestBody }) => json(requestBody))
      .filter((body) => body !== undefined);
    expect(bodies.filter(({ example }) => example === undefined)).toEqual([]);
    const answers = operations.flatMap(({ requestBody, responses }) =>
      Object.entries(responses)
        .filter(([status]) => status < "300")
        .map(([, answer]) => ({
          schema: schemaOf(answer)?.$ref,
          shown: json(answer)?.example ?? requestBody,
        })),
    );
    const shown = answers.filter((answer) => answer.shown !== undefined).map(({ schema }) => schema);
    const isList = (schema: unknown) => /\/(List|Export)\w+Answer$|\/Credits$/.test(String(schema));
    const others = answers.filter(({ schema }) => schema && !isList(schema) && !shown.includes(schema));
    expect(others.map(({ schema }) => schema)).toEqual(["#/components/schemas/AuthzenContext"]);
  });

  test("states the usual requirement and the roles of every call once, and the others at their operations", () => {
    const roles = ["owner", "approver", "developer", "auditor"];
    for (const full of expressible) {
      const { operationId } = full;
      const { security = published.security, "x-roles": some = roles } = named(operationId);
      const { "x-roles": expected = roles } = full as Partial<Operation>;
      expect([operationId, security, some]).toEqual([operationId, full.security, expected]);
    }
    expect(published.security).toEqual([{ session: [], csrf: [] }]);
    expect(named("send_code").security).toEqual([]);
    expect((published.info as Json).description).toContain("Without `x-roles`, every role may.");
  });

  test("has the parameters of the full document without examples, X-Request-Id and the account to act for", () => {
    for (const { operationId, parameters } of expressible) {
      const { parameters: short = [] } = expanded(named(operationId)) as Operation;
      const all = short.map((parameter) => ({ required: false, ...parameter }));
      const expected = parameters
        .filter(({ name }) => !["X-Request-Id", "X-Service-Account"].includes(String(name)))
        .map(({ example: _, ...parameter }) => parameter);
      expect(all).toHaveLength(expected.length);
      expect(all).toEqual(expect.arrayContaining(expected));
    }
  });

  test("has the common parameters of a path's operations at the path, and no empty list of parameters", () => {
    const { parameters, get, patch } = (published.paths as Record<string, Path>)[
      "/v1/service/platforms/{platform_id}"
    ] as Path;
    expect(expanded(parameters)).toMatchObject([{ name: "platform_id" }]);
    expect(get).not.toHaveProperty("parameters");
    expect(expanded(patch?.parameters)).toMatchObject([{ name: "Idempotency-Key" }]);
    expect(JSON.stringify(published)).not.toContain('"parameters":[]');
  });

  test("lists at least one refusal of each operation, although every call can return 400", () => {
    for (const { operationId, responses } of operations) {
      expect([operationId, Object.keys(responses).some((status) => status.startsWith("4"))]).toEqual([
        operationId,
        true,
      ]);
    }
  });

  test("describes the header of a repeated answer at Idempotency-Key", () => {
    expect(JSON.stringify(components.parameters?.IdempotencyKey)).toContain("Idempotent-Replayed: true");
    expect(JSON.stringify(published.paths)).not.toContain("Idempotent-Replayed");
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

  test.each([
    ["deny_delegation_request", "denied"],
    ["revoke_delegation", "revoked"],
    ["approve_delegation_request", "approved"],
    ["accept_namespace_binding", "accepted"],
  ])("shows the state after the call in the example of %s", (id, status) => {
    const operation = contract.operations.find(({ operationId }) => operationId === id);
    const answer = operation?.responses["200"] as Response | undefined;
    expect(answer?.content?.["application/json"]?.example).toMatchObject({ status });
  });
});
