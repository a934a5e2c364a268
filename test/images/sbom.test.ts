import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { IMAGES } from "../../src/dev/images/build.ts";
import { billOfMaterials, type Lock } from "../../src/dev/images/sbom.ts";

type Bill = {
  metadata: { component: { "bom-ref": string } };
  components: { name: string; version: string; purl: string; hashes?: { alg: string; content: string }[] }[];
  dependencies: { ref: string; dependsOn: string[] }[];
};

const LOCK: Lock = JSON.parse(readFileSync(new URL("../../package-lock.json", import.meta.url), "utf8"));
const billOf = (lock: Lock, root: string) => billOfMaterials("image", "1.2.3", lock, root) as Bill;
const namesIn = (bill: Bill) => bill.components.map(({ name, version }) => `${name}@${version}`);

const HASH = "sha512-3q2+7w==";
const SMALL: Lock = {
  packages: {
    "": {},
    part: { dependencies: { a: "1", "@scope/b": "1" }, optionalDependencies: { colors: "1" } },
    "part/node_modules/a": { version: "2.0.0", integrity: HASH, license: "MIT", dependencies: { c: "1" } },
    "node_modules/a": { version: "1.0.0", integrity: HASH },
    "node_modules/@scope/b": {
      version: "1.0.0",
      integrity: HASH,
      dependencies: { a: "1" },
      optionalDependencies: { rare: "1", common: "1" },
      peerDependencies: { peer: "1", absent: "1" },
    },
    "node_modules/c": { version: "1.0.0", integrity: HASH, dependencies: { "@scope/b": "1" } },
    "node_modules/rare": { version: "1.0.0", integrity: HASH, optional: true },
    "node_modules/colors": { version: "1.0.0", integrity: HASH, devOptional: true },
    "node_modules/common": { version: "1.0.0", integrity: HASH },
    "node_modules/peer": { version: "1.0.0", integrity: HASH },
    "node_modules/other": { version: "1.0.0", integrity: HASH },
  },
};

describe("a bill of materials", () => {
  test("contains exactly the packages that Node resolves for a workspace", () => {
    expect(namesIn(billOf(SMALL, "part"))).toEqual([
      "@scope/b@1.0.0",
      "a@1.0.0",
      "a@2.0.0",
      "c@1.0.0",
      "common@1.0.0",
      "peer@1.0.0",
    ]);
  });

  test("lists the dependencies of each package", () => {
    const { dependencies, metadata } = billOf(SMALL, "part");
    const of = (ref: string) => dependencies.find((each) => each.ref === ref)?.dependsOn;
    expect(of(metadata.component["bom-ref"])).toEqual(["@scope/b@1.0.0", "a@2.0.0"]);
    expect(of("a@2.0.0")).toEqual(["c@1.0.0"]);
    expect(of("@scope/b@1.0.0")).toEqual(["a@1.0.0", "common@1.0.0", "peer@1.0.0"]);
    expect(of("peer@1.0.0")).toEqual([]);
  });

  test("identifies each package by its purl and its hash", () => {
    expect(billOf(SMALL, "part").components[0]).toMatchObject({
      purl: "pkg:npm/%40scope/b@1.0.0",
      hashes: [{ alg: "SHA-512", content: "deadbeef" }],
    });
  });

  test("contains the root package if the root is a package and not a workspace", () => {
    expect(namesIn(billOf(SMALL, "node_modules/c"))).toContain("c@1.0.0");
  });
});

test("a bill of materials lists a version once that is installed in two folders, with the dependencies of both", () => {
  const a = { version: "1.0.0", integrity: HASH, dependencies: { c: "1" } };
  const packages: Lock["packages"] = {
    part: { dependencies: { a: "1", b: "1" } },
    "node_modules/a": a,
    "node_modules/b": { version: "1.0.0", integrity: HASH, dependencies: { a: "1" } },
    "node_modules/b/node_modules/a": a,
    "node_modules/b/node_modules/c": { version: "2.0.0", integrity: HASH },
    "node_modules/c": { version: "1.0.0", integrity: HASH },
  };
  const bill = billOf({ packages }, "part");
  expect(namesIn(bill)).toEqual(["a@1.0.0", "b@1.0.0", "c@1.0.0", "c@2.0.0"]);
  expect(bill.dependencies.filter(({ ref }) => ref === "a@1.0.0")).toEqual([
    { ref: "a@1.0.0", dependsOn: ["c@1.0.0", "c@2.0.0"] },
  ]);
});

test.each(IMAGES.map(({ name, packages }) => [name, packages]))(
  "the bill of materials of %s is complete",
  (_name, packages) => {
    const bill = billOf(LOCK, packages);
    expect(bill.components.length).toBeGreaterThan(0);
    for (const { name, version, hashes } of bill.components) {
      expect(version, name).toMatch(/^\d+\.\d+\.\d+/);
      expect(hashes?.[0]?.content, name).toMatch(/^[0-9a-f]{128}$/);
    }
    const refs = bill.dependencies.map(({ ref }) => ref);
    expect([...new Set(refs)]).toEqual(refs);
    expect(refs).toEqual(expect.arrayContaining(bill.dependencies.flatMap(({ dependsOn }) => dependsOn)));
  },
);
