import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadSchemas, type Schemas } from "../../../src/operator/schema/schemas.ts";
import { isOldest, kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { definitions, installDefinitions } from "../../support/kubernetes/definitions.ts";
import { type Kubernetes, type KubernetesAnswer, startKubernetes } from "../../support/kubernetes/server.ts";
import { platform } from "../operator_folder.ts";
import type { SchemaCase } from "./cases/manifests.ts";
import { schemaCases } from "./schema_cases.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

describe.skipIf(binary.missing !== undefined)("the schema of Deputize's kinds on a real API server", () => {
  let kubernetes: Kubernetes;
  let schemas: Schemas;
  let unused = 0;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    schemas = await loadSchemas();
    await installDefinitions(kubernetes);
  }, BUILD_TIMEOUT_MS);

  afterAll(() => kubernetes?.stop());

  test("consists of valid definitions without structural warnings", async () => {
    for (const resource of definitions) {
      const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${resource}.deputize.io`;
      const { body } = await kubernetes.call("GET", path);
      const conditions = (body.status as { conditions: { type: string; status: string }[] }).conditions;
      expect(conditions.filter(({ type }) => type === "NonStructuralSchema")).toEqual([]);
      expect(conditions.find(({ type }) => type === "Established")?.status).toBe("True");
    }
  });

  test("defines short names and selectable fields", async () => {
    const { body } = await kubernetes.call("GET", "/apis/deputize.io/v1alpha1");
    const kinds = body.resources as { name: string; shortNames?: string[] }[];
    const shortNames = kinds.flatMap(({ name, shortNames = [] }) => shortNames.map((short) => [short, name]));
    expect(Object.fromEntries(shortNames)).toEqual({
      dplat: "platforms",
      dagent: "agents",
      ddel: "delegations",
    });
    await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: "selected" } });
    for (const [name, agent] of ["bot", "bot", "other"].map((agent, index) => [`d${index}`, agent])) {
      const spec = { platformRef: { name: "shop" }, agentRef: { name: agent }, scopes: ["data:read"] };
      const metadata = { name, namespace: "selected" };
      const object = { apiVersion: "deputize.io/v1alpha1", kind: "Delegation", metadata, spec };
      expect(await write(object as SchemaCase["object"])).toMatchObject({ taken: true });
    }
    const collection = "/apis/deputize.io/v1alpha1/namespaces/selected/delegations";
    const listed = await kubernetes.call("GET", `${collection}?fieldSelector=spec.agentRef.name%3Dbot`);
    if (isOldest) {
      expect([listed.status, listed.body.message]).toEqual([400, expect.stringContaining("not supported")]);
      return;
    }
    const items = listed.body.items as { metadata: { name: string } }[];
    expect(items.map(({ metadata }) => metadata.name)).toEqual(["d0", "d1"]);
  });

  test("reports the field of a violation with a readable message", async () => {
    await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: "refused" } });
    const answer = await write({
      apiVersion: "deputize.io/v1alpha1",
      kind: "Delegation",
      metadata: { name: "example", namespace: "refused" },
      spec: {
        platformRef: { name: "shop" },
        agentRef: { name: "Bot" },
        scopes: ["data:read", "no scope"],
        ttl: "1h",
        expiresAt: "2030-01-31T12:00:00Z",
      },
    });
    expect(
      answer.causes.map(({ field, message }) => `${field}: ${message.split(": ").at(-1)}`).sort(),
    ).toEqual([
      expect.stringMatching(/^spec\.agentRef\.name: a name has lower-case letters/),
      "spec.scopes[1]: a scope is domain:action or custom:…",
      "spec.ttl: set either ttl or expiresAt, not both",
    ]);
  });

  test("lets two managers apply the largest Platform on the server, within etcd's limit", async () => {
    await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: "large" } });
    const scopeOf = (length: number, index: number) => `custom:large:${index}`.padEnd(length, "x");
    const principals = Array.from({ length: 1_000 }, (_, index) => ({
      humanID: index.toString(16).padStart(32, "0"),
      // 8,192 scopes of 16 characters, at most 64 of one principal.
      scopes: Array.from({ length: index < 192 ? 9 : 8 }, (_, n) => scopeOf(16, n)),
      acceptedUntil: "2030-01-31T12:00:00Z",
    }));
    const custom = Array.from({ length: 64 }, (_, index) => scopeOf(256, index));
    const entries = (length: number) =>
      Object.fromEntries(
        Array.from({ length: 16 }, (_, index) => [`example.test/${index}`, "x".repeat(length)]),
      );
    const manifest = platform(
      {
        displayName: "𠮷".repeat(60),
        description: "𠮷".repeat(1_000),
        defaultAllowedScopes: custom,
        acceptedPrincipals: principals,
        redirectURIs: Array.from({ length: 10 }, (_, index) =>
          `https://${index}.example.test/`.padEnd(512, "x"),
        ),
        scopeDescriptions: custom.map((scope) => ({
          scope,
          label: "𠮷".repeat(60),
          description: "𠮷".repeat(200),
        })),
        secretTemplate: { labels: entries(63), annotations: entries(1_024) },
      },
      { namespace: "large" },
    );
    const path = "/apis/deputize.io/v1alpha1/namespaces/large/platforms/shop";
    for (const manager of ["one", "two"]) {
      const type = "application/apply-patch+yaml";
      const answer = await kubernetes.call(
        "PATCH",
        `${path}?fieldManager=${manager}&force=true`,
        manifest,
        type,
      );
      expect(answer.status, JSON.stringify(answer.body).slice(0, 2_000)).toBeLessThan(300);
    }
    const { body } = await kubernetes.call("GET", path);
    expect((body.spec as { acceptedPrincipals: unknown[] }).acceptedPrincipals).toHaveLength(1_000);
    const { managedFields } = body.metadata as { managedFields: object[] };
    expect(managedFields.length).toBeGreaterThanOrEqual(2);
    // Leaves 64 KiB for the status, which the operator writes.
    const size = Buffer.byteLength(JSON.stringify(body)) + 65_536;
    expect(size).toBeGreaterThan(1_000_000);
    expect(size).toBeLessThan(1.5 * 1_048_576);
  });

  test.each(schemaCases)("$name", async (schemaCase) => {
    const namespace = `case-${unused++}`;
    await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: namespace } });
    const { previous, object } = placed(schemaCase, namespace);
    if (previous !== undefined) expect(await write(previous)).toMatchObject({ taken: true });
    const answer = await write(object);
    expect(answer, JSON.stringify(answer)).toMatchObject({ taken: schemaCase.accepted });
    const folder = schemas.validate(object, previous);
    if (answer.taken) expect(answer.spec).toEqual((folder.object as Manifest).spec);
    for (const { path, message } of folder.violations ?? []) {
      const cause = answer.causes.find((each) => each.message.endsWith(`: ${message}`));
      if (cause !== undefined && path !== "") expect(cause.field).toBe(path);
    }
    expect(answer.causes.map((cause) => cause.message).filter(showsPattern)).toEqual([]);
  });

  /**
   * Returns whether a message shows a pattern. Ignores two patterns that no CEL rule can replace: a rule
   * cannot read the text of a time, and a rule for 64,000 scopes would be too expensive.
   */
  function showsPattern(message: string): boolean {
    return message.includes("should match '") && !/should match '\^(2\[0-9\]|\(custom)/.test(message);
  }

  type Manifest = SchemaCase["object"];
  type Written = {
    taken: boolean;
    message: unknown;
    spec: unknown;
    causes: { field: string; message: string }[];
  };

  function placed({ object, previous }: SchemaCase, namespace: string) {
    const inNamespace = (manifest: Manifest) => ({
      ...manifest,
      metadata: { ...manifest.metadata, namespace },
    });
    return { object: inNamespace(object), previous: previous && inNamespace(previous) };
  }

  async function write(manifest: Manifest): Promise<Written> {
    const { status, ...object } = manifest;
    const plural = `${manifest.kind.toLowerCase()}s`;
    const collection = `/apis/deputize.io/v1alpha1/namespaces/${manifest.metadata.namespace}/${plural}`;
    const path = `${collection}/${manifest.metadata.name}`;
    const strict = "fieldValidation=Strict";
    const current = await kubernetes.call("GET", path);
    const answer =
      current.status === 200
        ? await kubernetes.call("PUT", `${path}?${strict}`, versioned(object, current))
        : await kubernetes.call("POST", `${collection}?${strict}`, object);
    if (answer.status >= 300 || status === undefined) return told(answer);
    return told(
      await kubernetes.call("PUT", `${path}/status?${strict}`, versioned({ ...object, status }, answer)),
    );
  }

  function versioned(object: Manifest, current: KubernetesAnswer) {
    const { resourceVersion } = current.body.metadata as { resourceVersion: string };
    return { ...object, metadata: { ...object.metadata, resourceVersion } };
  }

  function told({ status, body }: KubernetesAnswer) {
    if (![200, 201, 400, 422].includes(status)) {
      throw new Error(`unexpected ${status} ${String(body.message)}`);
    }
    const { causes = [] } = (body.details ?? {}) as { causes?: Written["causes"] };
    return { taken: status < 300, message: body.message, spec: body.spec, causes };
  }
});
