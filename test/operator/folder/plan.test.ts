import { beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { type ManifestFile, readDocuments } from "../../../src/operator/folder/documents.ts";
import { type Known, type Plan, planChanges, type TenantsFound } from "../../../src/operator/folder/plan.ts";
import { type AnyObject, keyOf, keyText } from "../../../src/operator/kinds.ts";
import { loadSchemas, type Schemas } from "../../../src/operator/schema/schemas.ts";
import { tenants } from "./folders.ts";

const spec = { displayName: "Shop", surfaceType: "agentic_api", defaultAllowedScopes: ["data:read"] };
const platform = (displayName = "Shop") => ({
  apiVersion: "deputize.io/v1alpha1",
  kind: "Platform",
  metadata: { name: "shop" },
  spec: { ...spec, displayName },
});
const file = (path: string, ...documents: object[]): ManifestFile =>
  readDocuments(path, documents.map((document) => stringify(document)).join("---\n"));
const broken = (path: string): ManifestFile => ({ path, fault: "not YAML" });
const beingWritten = (path: string): ManifestFile => ({
  path,
  fault: "is being written",
  beingWritten: true,
});
const foreign = (name: string) => ({ apiVersion: "v1", kind: "Pod", metadata: { name } });

function known(manifest: string, metadata: object = {}): Known {
  const object = {
    ...platform(),
    metadata: {
      name: "shop",
      namespace: "default",
      uid: "u",
      generation: 1,
      creationTimestamp: "2026-01-01T00:00:00.000Z",
      finalizers: [],
      ...metadata,
    },
    status: {},
  };
  return { object: object as unknown as AnyObject, manifest };
}

describe("a plan", () => {
  let schemas: Schemas;
  beforeAll(async () => {
    schemas = await loadSchemas();
  });

  function plan(files: ManifestFile[], there: Known[] = [], before?: TenantsFound): Plan {
    const map = new Map(there.map((each) => [keyText(keyOf(each.object)), each]));
    return planChanges({ files, known: map, tenants: before, schemas });
  }
  const counts = ({ accepted, refused, unchanged, removed, errors }: Plan) =>
    [accepted, refused, unchanged, removed, errors].map((list) => list.length).join(" ");

  test.each<[string, () => Plan, string]>([
    ["accepts what is new", () => plan([file("a", platform())]), "1 0 0 0 0"],
    ["leaves what is the same", () => plan([file("a", platform())], [known("a")]), "0 0 1 0 0"],
    ["accepts what changed", () => plan([file("a", platform("New"))], [known("a")]), "1 0 0 0 0"],
    ["removes what is nowhere", () => plan([file("a")], [known("a")]), "0 0 0 1 0"],
    ["removes what was in a file that is gone", () => plan([], [known("a")]), "0 0 0 1 0"],
    ["keeps what was in a broken file", () => plan([broken("a")], [known("a")]), "0 0 0 0 1"],
    [
      "keeps what was in an unsettled file, silently",
      () => plan([beingWritten("a")], [known("a")]),
      "0 0 0 0 0",
    ],
    [
      "removes what was in another file than the broken one",
      () => plan([broken("b")], [known("a")]),
      "0 0 0 1 1",
    ],
    [
      "keeps what a foreign object may have meant",
      () => plan([file("a", foreign("shop"))], [known("a")]),
      "0 0 0 0 1",
    ],
    [
      "removes what a foreign object cannot have meant",
      () => plan([file("a", foreign("x"))], [known("a")]),
      "0 0 0 1 1",
    ],
    ["refuses both of two", () => plan([file("a", platform()), file("b", platform())]), "0 1 0 0 2"],
    [
      "takes no second declaration while the first cannot be read",
      () => plan([beingWritten("a"), file("b", platform("Other"))], [known("a")]),
      "0 0 0 0 0",
    ],
    [
      "takes a move to another file",
      () => plan([file("a"), file("b", platform())], [known("a")]),
      "0 0 1 0 0",
    ],
    [
      "leaves what is being deleted",
      () => plan([file("a", platform("New"))], [known("a", { deletionTimestamp: "2026-01-01T00:00:00Z" })]),
      "0 0 0 0 0",
    ],
  ])("%s", (_, make, expected) => {
    expect(counts(make())).toBe(expected);
  });

  const bound: TenantsFound = { data: { default: "accountEmail: owner@example.test" }, manifest: "a" };
  test.each<[string, ManifestFile[], TenantsFound | undefined, TenantsFound | "none" | undefined]>([
    ["finds the tenants", [file("a", tenants())], undefined, bound],
    ["finds that there are none", [], bound, "none"],
    ["cannot tell from a broken file", [broken("a")], bound, undefined],
    ["cannot tell from two", [file("a", tenants()), file("b", tenants())], bound, undefined],
    [
      "takes no second declaration while the first cannot be read",
      [beingWritten("a"), file("b", tenants())],
      bound,
      undefined,
    ],
    ["follows a move", [file("b", tenants())], bound, { ...bound, manifest: "b" }],
    ["cares not for other broken files", [broken("b")], bound, "none"],
  ])("%s", (_, files, before, expected) => {
    expect(plan(files, [], before).tenants).toEqual(expected);
  });

  test("takes the default namespace for an object without one, and another for another object", () => {
    const other = { ...platform(), metadata: { name: "shop", namespace: "team" } };
    const { accepted } = plan([file("a", platform(), other)]);
    expect(accepted.map(({ key }) => key.namespace)).toEqual(["default", "team"]);
  });

  test("drops what only a server sets, so that an exported object can be put in", () => {
    const exported = {
      ...platform(),
      metadata: {
        name: "shop",
        uid: "x",
        resourceVersion: "7",
        generation: 3,
        finalizers: ["a/b"],
        labels: { a: "b" },
      },
      status: { phase: "whatever" },
    };
    const { accepted } = plan([file("a", exported)]);
    expect(accepted[0]?.manifest).toEqual({
      ...platform(),
      metadata: { name: "shop", namespace: "default", labels: { a: "b" } },
    });
  });
});
