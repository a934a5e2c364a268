import fc from "fast-check";
import type { Draft } from "./call.ts";
import { contract } from "./documented.ts";
import { STRANGE } from "./mutations.ts";
import type { Operation, Schema } from "./openapi_document.ts";

/** How to make a call invalid. A scene provides the ids later. */
export type Wish = {
  operation: Operation;
  /** 0: no caller. 1: the operation's first kind of caller. 2: invalid credentials. */
  caller: 0 | 1 | 2;
  /** Replaces the draft's body with a JSON value or raw bytes. */
  body?: { json: unknown } | { raw: Buffer };
  /** Members to set in the draft's body, each with its path. */
  members: [path: string[], value: unknown][];
  params: [place: number, text: string][];
  query: [name: string, value: string][];
  headers: [name: string, value: string][];
};

/** Short strings that often break parsers. */
const hardText = fc.oneof(
  fc.constantFrom(
    ...[
      "",
      "\0",
      "\u{1f600}",
      "\ud800",
      "\u202e",
      "' or 1=1 --",
      "{{7*7}}",
      "../../etc/passwd",
      "%2e%2e%2f",
      "%00",
    ],
    ...[
      "__proto__",
      "constructor",
      "null",
      "NaN",
      "1e999",
      "-0",
      "9".repeat(400),
      "x".repeat(5000),
      "\r\nx: y",
      "٣",
    ],
    ...[
      "0".repeat(32),
      "01980f3e-6b1c-7d52-9a3e-5c1f7e20b846",
      "cert-",
      "req-",
      "2026-02-30T00:00:00Z",
      "payments:*",
    ],
    ...[
      "0000-01-01T00:00:00Z",
      "9999-12-31T23:59:59.999Z",
      "+275760-09-13T00:00:00Z",
      "custom:a:b",
      "\ufeff",
      "é",
    ],
  ),
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.base64String({ maxLength: 200 }),
);

const hardNumber = fc.oneof(
  fc.constantFrom(0, -0, -1, 1, 1.5, 2 ** 31, 2 ** 53, -(2 ** 63), 1e308, 5e-324, 25, 100, 101),
  fc.double({ noNaN: true }),
);

const { hard } = fc.letrec<{ hard: unknown }>((tie) => ({
  hard: fc.oneof(
    { maxDepth: 4, depthSize: "small" },
    hardText,
    hardNumber,
    fc.constantFrom(...STRANGE),
    fc.array(tie("hard"), { maxLength: 4 }),
    fc.dictionary(fc.oneof(hardText, fc.constantFrom(...knownNames())), tie("hard"), { maxKeys: 5 }),
  ),
}));

/** Random objects sometimes contain these known members. */
function knownNames(): string[] {
  const names = new Set<string>();
  const collect = ({ properties = {}, ...schema }: Schema): void => {
    for (const [name, member] of Object.entries(properties)) {
      names.add(name);
      collect(member);
    }
    for (const form of [
      ...(schema.anyOf ?? []),
      ...(schema.oneOf ?? []),
      ...(schema.items ? [schema.items] : []),
    ]) {
      collect(form);
    }
  };
  for (const { requestBody } of contract.operations) {
    collect(requestBody?.content["application/json"]?.schema ?? {});
  }
  return [...names];
}

const deep = fc.integer({ min: 10, max: 20_000 }).map((depth) => "[".repeat(depth));

const raw = fc.oneof(
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  deep.map((text) => Buffer.from(`{"a":${text}`)),
  fc.json().chain((text) => fc.nat(text.length).map((end) => Buffer.from(text.slice(0, end)))),
  fc
    .constantFrom(
      ...[
        '{"a":1,"a":2}',
        '{"__proto__":{"x":1}}',
        '{"name":"\\ud800"}',
        '{"a":1e400}',
        '{"a":01}',
        "[".repeat(262_144),
      ],
      ...["\ufeff{}", '{"a":"\\u0000"}', "{}\n{}", "nul", '{"a":123456789012345678901234567890}'],
    )
    .map((text) => Buffer.from(text)),
);

/** Strings that HTTP allows as a header value. */
const headerText = fc.oneof(
  fc.constantFrom("", "a", "x".repeat(300), "a, b", '"', "=", "é", "application/json", "*/*", "none"),
  fc.string({ maxLength: 30 }).map((text) => text.replaceAll(/[^\t\x20-\x7e]/g, "?")),
);

const headerNames = fc.constantFrom(
  ...[
    "content-type",
    "x-request-id",
    "idempotency-key",
    "if-none-match",
    "cookie",
    "x-service-csrf",
    "accept",
  ],
  ...[
    "x-service-api-key",
    "x-service-proof",
    "x-service-required-scope",
    "x-forwarded-for",
    "content-encoding",
  ],
  ...["authorization", "accept-encoding", "x-http-method-override", "range", "expect-ct", "host"],
);

export function wishes(operations: readonly Operation[]): fc.Arbitrary<Wish> {
  return fc.constantFrom(...operations).chain((operation) => {
    const places = placesOf(operation.requestBody?.content["application/json"]?.schema ?? {});
    const queries = operation.parameters
      .filter((parameter) => parameter.in === "query")
      .map(({ name }) => name);
    const member = fc.tuple(fc.constantFrom(...(places.length > 0 ? places : [["name"]])), hard);
    return fc.record(
      {
        operation: fc.constant(operation),
        caller: fc.constantFrom(1, 1, 1, 1, 1, 1, 0, 2) as fc.Arbitrary<Wish["caller"]>,
        body: fc.oneof(
          { weight: 2, arbitrary: hard.map((json) => ({ json })) },
          { weight: 1, arbitrary: raw.map((bytes) => ({ raw: bytes })) },
        ),
        members: fc.array(member, { maxLength: 3 }),
        params: fc.array(fc.tuple(fc.nat(1), hardText), { maxLength: 1 }),
        query: fc.array(fc.tuple(fc.constantFrom(...queries, "limit", "x"), hardText), { maxLength: 2 }),
        headers: fc.array(fc.tuple(headerNames, headerText), { maxLength: 2 }),
      },
      { requiredKeys: ["operation", "caller", "members", "params", "query", "headers"] },
    ) as fc.Arbitrary<Wish>;
  });
}

function placesOf(schema: Schema, depth = 3): string[][] {
  if (depth === 0) return [];
  const forms = [schema, ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  return forms.flatMap(({ properties = {} }) =>
    Object.entries(properties).flatMap(([name, member]) => [
      [name],
      ...placesOf(member, depth - 1).map((rest) => [name, ...rest]),
    ]),
  );
}

/** Returns the draft with the changes that a wish describes. */
export function spoil(draft: Draft, wish: Wish): Draft {
  const params = { ...draft.params };
  const names = Object.keys(params);
  for (const [place, text] of wish.params) {
    const name = names[place % names.length];
    if (name !== undefined) params[name] = text;
  }
  const spoiled: Draft = { ...draft, params, query: wish.query, headers: wish.headers };
  if (wish.body !== undefined && "raw" in wish.body) {
    const typed: Draft["headers"] = [["content-type", "application/json"]];
    return { ...spoiled, raw: wish.body.raw, headers: [...typed, ...wish.headers] };
  }
  const base = wish.body === undefined ? draft.body : wish.body.json;
  const body = wish.members.reduce((value, [path, to]) => changed(value, path, to), base);
  return body === undefined ? spoiled : { ...spoiled, body };
}

function changed(value: unknown, [name = "", ...rest]: string[], to: unknown): unknown {
  const object = typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
  const old = (object as Record<string, unknown>)[name];
  return { ...object, [name]: rest.length > 0 ? changed(old, rest, to) : to };
}
