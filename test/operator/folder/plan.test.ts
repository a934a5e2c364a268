import { beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { type ManifestFile, readDocuments } from "../../../src/operator/folder/documents.ts";
import { type BindingsFound, type Known, type Plan, planChanges } from "../../../src/operator/folder/plan.ts";
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

describe("the plan for a folder", () => {
  let schemas: Schemas;
  beforeAll(async () => {
    schemas = await loadSchemas();
  });

  function plan(files: ManifestFile[], there: Known[] = [], before?: BindingsFound): Plan {
    const map = new Map(there.map((each) => [keyText(keyOf(each.object)), each]));
    return planChanges({ files, known: map, bindings: before, schemas });
  }
  const counts = ({ accepted, refused, unchanged, removed, errors }: Plan) =>
    [accepted, refused, unchanged, removed, errors].map((list) => list.length).join(" ");

  test.each<[string, () => Plan, string]>([
    ["accepts a new object", () => plan([file("a", platform())]), "1 0 0 0 0"],
    ["keeps an unchanged object", () => plan([file("a", platform())], [known("a")]), "0 0 1 0 0"],
    ["accepts a changed object", () => plan([file("a", platform("New"))], [known("a")]), "1 0 0 0 0"],
    ["removes an object that no file declares", () => plan([file("a")], [known("a")]), "0 0 0 1 0"],
    ["removes an object whose file is gone", () => plan([], [known("a")]), "0 0 0 1 0"],
    ["keeps an object whose file is broken", () => plan([broken("a")], [known("a")]), "0 0 0 0 1"],
    [
      "keeps an object whose file is being written, without an error",
      () => plan([beingWritten("a")], [known("a")]),
      "0 0 0 0 0",
    ],
    [
      "removes an object if the broken file belongs to a different object",
      () => plan([broken("b")], [known("a")]),
      "0 0 0 1 1",
    ],
    [
      "keeps an object if a document of an unknown kind has its name",
      () => plan([file("a", foreign("shop"))], [known("a")]),
      "0 0 0 0 1",
    ],
    [
      "removes an object if the document of an unknown kind has a different name",
      () => plan([file("a", foreign("x"))], [known("a")]),
      "0 0 0 1 1",
    ],
    [
      "refuses both declarations of an object that is declared twice",
      () => plan([file("a", platform()), file("b", platform())]),
      "0 1 0 0 2",
    ],
    [
      "ignores a second declaration while the first is unreadable",
      () => plan([beingWritten("a"), file("b", platform("Other"))], [known("a")]),
      "0 0 0 0 0",
    ],
    [
      "keeps an object that moves to a different file",
      () => plan([file("a"), file("b", platform())], [known("a")]),
      "0 0 1 0 0",
    ],
    [
      "does not change an object that is being deleted",
      () => plan([file("a", platform("New"))], [known("a", { deletionTimestamp: "2026-01-01T00:00:00Z" })]),
      "0 0 0 0 0",
    ],
  ])("%s", (_, make, expected) => {
    expect(counts(make())).toBe(expected);
  });

  const bound: BindingsFound = { data: { default: "accountEmail: owner@example.test" }, manifest: "a" };
  test.each<[string, ManifestFile[], BindingsFound | undefined, BindingsFound | "none" | undefined]>([
    ["finds namespace bindings", [file("a", tenants())], undefined, bound],
    ["finds that there are no bindings", [], bound, "none"],
    ["keeps the bindings while their file is broken", [broken("a")], bound, undefined],
    [
      "keeps the bindings while they are declared twice",
      [file("a", tenants()), file("b", tenants())],
      bound,
      undefined,
    ],
    [
      "ignores a second declaration of bindings while the first is unreadable",
      [beingWritten("a"), file("b", tenants())],
      bound,
      undefined,
    ],
    [
      "accepts bindings that move to a different file",
      [file("b", tenants())],
      bound,
      { ...bound, manifest: "b" },
    ],
    ["removes the bindings even if a different file is broken", [broken("b")], bound, "none"],
  ])("%s", (_, files, before, expected) => {
    expect(plan(files, [], before).bindings).toEqual(expected);
  });

  test("puts an object without a namespace into the default namespace", () => {
    const other = { ...platform(), metadata: { name: "shop", namespace: "team" } };
    const { accepted } = plan([file("a", platform(), other)]);
    expect(accepted.map(({ key }) => key.namespace)).toEqual(["default", "team"]);
  });

  test("drops fields that only a server sets, so that an exported object is a valid manifest", () => {
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
