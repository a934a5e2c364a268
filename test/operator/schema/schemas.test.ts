import { beforeAll, describe, expect, test } from "vitest";
import { readDefinitions, type StructuralSchema } from "../../../src/operator/schema/read_crds.ts";
import { loadSchemas, type Schemas } from "../../../src/operator/schema/schemas.ts";
import {
  CANONICAL_SCOPES,
  SENSITIVE_SCOPES,
  WILDCARDS,
} from "../../../src/protocol/documents/scope_vocabulary.ts";
import { canonicalBytes } from "../../../src/protocol/encoding/canonical.ts";
import { MAX_PROOF_BUNDLE_BYTES } from "../../../src/protocol/encoding/constants.ts";
import { schemaCases } from "./schema_cases.ts";

/** Size of a certificate without scopes and constraints: two public keys, ids and times. */
const CERTIFICATE_BYTES = 7_000;
/** Room that the API reserves for the rest of a bundle. */
const BUNDLE_BYTES = 12_800;

/** The API server describes metadata itself, so definitions cannot describe it. */
const METADATA = /^[A-Za-z]+\.metadata$/;

describe("the schema of Deputize's kinds", () => {
  let schemas: Schemas;
  beforeAll(async () => {
    schemas = await loadSchemas();
  });

  test.each(schemaCases)("$name", ({ object, previous, accepted }) => {
    if (previous !== undefined) expect(schemas.validate(previous).violations).toBeUndefined();
    expect(schemas.validate(object, previous).violations === undefined).toBe(accepted);
  });

  test("reports the field and the fault of a violation", () => {
    const object = {
      apiVersion: "deputize.io/v1alpha1",
      kind: "Delegation",
      metadata: { name: "example" },
      spec: { platformRef: { name: "shop" }, agentRef: {}, scopes: ["data:read", "x"], until: "tomorrow" },
    };
    const faults = schemas.validate(object).violations ?? [];
    expect(faults).toContainEqual({ path: "spec.until", message: "unknown field" });
    expect(faults).toContainEqual({ path: "spec.agentRef.name", message: "is required" });
    expect(faults.map(({ path }) => path)).toContain("spec.scopes[1]");
  });

  test.each([
    ["Platform", "defaultAllowedScopes", { displayName: "Shop", surfaceType: "agentic_api" }],
    ["Delegation", "scopes", { platformRef: { name: "shop" }, agentRef: { name: "bot" } }],
  ])("explains the form of a scope of a %s instead of showing the pattern", (kind, field, rest) => {
    const spec = { ...rest, [field]: ["data:read", "no scope"] };
    const object = { apiVersion: "deputize.io/v1alpha1", kind, metadata: { name: "example" }, spec };
    expect(schemas.validate(object).violations).toEqual([
      { path: `spec.${field}[1]`, message: "a scope is domain:action or custom:…" },
    ]);
  });

  test("reports the right field for a rule of the whole spec", () => {
    const spec = {
      platformRef: { name: "shop" },
      agentRef: { name: "bot" },
      scopes: ["data:read"],
      ttl: "1h",
      expiresAt: "2030-01-31T12:00:00Z",
    };
    const object = { apiVersion: "deputize.io/v1alpha1", kind: "Delegation", metadata: { name: "a" }, spec };
    expect(schemas.validate(object).violations).toEqual([
      { path: "spec.ttl", message: "set either ttl or expiresAt, not both" },
    ]);
  });

  test("explains the form of a human-readable text without showing the pattern or the text", () => {
    const spec = {
      displayName: "Sh\u202eop",
      surfaceType: "agentic_api",
      defaultAllowedScopes: ["data:read"],
    };
    const object = {
      apiVersion: "deputize.io/v1alpha1",
      kind: "Platform",
      metadata: { name: "example" },
      spec,
    };
    expect(schemas.validate(object).violations).toEqual([
      { path: "spec.displayName", message: expect.stringMatching(/^must be entirely visible: [ -~]*$/) },
    ]);
  });

  test("accepts every scope and wildcard of the vocabulary for accepted principals", () => {
    const all = [...CANONICAL_SCOPES, ...WILDCARDS.keys()];
    const acceptedPrincipals = [all.slice(0, 64), all.slice(64)]
      .filter((scopes) => scopes.length > 0)
      .map((scopes, index) => ({ humanID: `${index}`.repeat(32), scopes }));
    const spec = {
      displayName: "Shop",
      surfaceType: "agentic_api",
      defaultAllowedScopes: ["data:read"],
      acceptedPrincipals,
    };
    const object = {
      apiVersion: "deputize.io/v1alpha1",
      kind: "Platform",
      metadata: { name: "example" },
      spec,
    };
    expect(schemas.validate(object).violations).toBeUndefined();
  });

  test("refuses unknown kinds", () => {
    expect(schemas.validate({ apiVersion: "deputize.io/v1", kind: "Platform" }).violations).toHaveLength(1);
    expect(schemas.validate({ apiVersion: "deputize.io/v1alpha1", kind: "Pod" }).violations).toHaveLength(1);
    expect(schemas.validate(undefined).violations).toHaveLength(1);
    expect(schemas.validate([]).violations).toHaveLength(1);
  });

  test("contains the same sensitive scopes as the API's vocabulary", async () => {
    const groups = [...WILDCARDS.keys()].map((wildcard) => wildcard.slice(0, -1));
    const reachable = [...SENSITIVE_SCOPES].filter((scope) =>
      groups.some((group) => scope.startsWith(group)),
    );
    const definitions = JSON.stringify(await readDefinitions());
    const lists = [...definitions.matchAll(/!\(s in (\[[^\]]+\])\)/g)].map(([, list]) =>
      (JSON.parse((list ?? "").replaceAll("'", '"')) as string[]).sort(),
    );
    expect(lists).toEqual([reachable.sort(), reachable.sort()]);
  });

  test("refuses constraints that would make a certificate larger than the API allows", () => {
    const long = -1.2345678901234567e-100;
    const points = Array.from({ length: 256 }, () => [long, long]);
    const box = { type: "geo_bbox", min_lat: long, min_lon: long, max_lat: long, max_lon: long };
    const constraints = [
      ...Array.from({ length: 4 }, () => ({ type: "geo_polygon", points })),
      ...Array.from({ length: 16 }, () => ({
        type: "resource_path",
        resource_id: '"',
        path_prefix: `/${"\u{1f525}".repeat(510)}`,
      })),
      ...Array.from({ length: 12 }, () => ({ ...box, min_alt_m: long, max_alt_m: long })),
    ];
    const scopes = Array.from({ length: 64 }, (_, index) => `custom:a:${String(index).padStart(247, "0")}`);
    const spec = { platformRef: { name: "shop" }, agentRef: { name: "bot" }, scopes, constraints };
    const object = { apiVersion: "deputize.io/v1alpha1", kind: "Delegation", metadata: { name: "a" }, spec };
    expect(schemas.validate(object).violations).toBeUndefined();
    const bytes = canonicalBytes({ constraints, scopes }).length + CERTIFICATE_BYTES;
    expect(bytes).toBeLessThan(MAX_PROOF_BUNDLE_BYTES - BUNDLE_BYTES);
  });

  test("describes every field for kubectl explain", async () => {
    const undescribed = (await readDefinitions()).flatMap(({ kind, schema }) =>
      fieldsOf(schema, kind).filter(([, field]) => !/^[A-Z].*\.$/s.test(String(field.description))),
    );
    const paths = undescribed.map(([path]) => path).filter((path) => !METADATA.test(path));
    expect(paths).toEqual([]);
  });

  test("declares no defaults, which would make a GitOps tool report a difference", async () => {
    expect(JSON.stringify(await readDefinitions())).not.toContain('"default"');
  });
});

function fieldsOf(schema: StructuralSchema, path: string): [string, StructuralSchema][] {
  const members = Object.entries(schema.properties ?? {}).flatMap(([name, child]) => [
    [`${path}.${name}`, child] satisfies [string, StructuralSchema],
    ...fieldsOf(child, `${path}.${name}`),
  ]);
  return schema.items === undefined ? members : [...members, ...fieldsOf(schema.items, `${path}[]`)];
}
