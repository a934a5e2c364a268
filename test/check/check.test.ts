import { execFile } from "node:child_process";
import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { definitionsFolder } from "../../src/operator/schema/read_crds.ts";
import { agent, delegation, type Manifest, platform } from "../operator/schema/cases/manifests.ts";
import { check, checkJson, findingsIn, manifestFolder } from "./support.ts";

const ROOT = join(import.meta.dirname, "../..");

const named = (object: Manifest, name: string): Manifest => ({
  ...object,
  metadata: { ...object.metadata, name },
});
const shop = named(platform({ defaultAllowedScopes: ["data:read", "payments:send"] }), "shop");
const bot = named(agent(), "bot");
const request = delegation({ scopes: ["data:read"] });

describe("deputize check", () => {
  test("accepts the quickstart, and counts what it checked", async () => {
    expect(await check(join(ROOT, "docs/examples/quickstart"))).toEqual({
      status: 0,
      out: "0 errors, 0 warnings in 3 objects and 1 namespace binding of 4 files.\n",
      err: "",
    });
  });

  test("ends with status 1 for an error, and writes the sum to standard error", async () => {
    const { folder } = await manifestFolder({ "shop.yaml": [platform({ surfaceType: "paper" })] });
    const { status, out, err } = await check(folder);
    expect(status).toBe(1);
    expect(out).toMatch(/shop\.yaml:\d+:\d+ error: Platform\/default\/example: spec\.surfaceType: /);
    expect(err).toBe("1 error, 0 warnings in 1 object of 1 file.\n");
  });

  test("ends with status 0 for warnings only", async () => {
    const { folder } = await manifestFolder({ "bot.yaml": [agent()] });
    const { status, out } = await check(folder);
    expect(status).toBe(0);
    expect(out).toMatch(/warning: .*Platform shop is not declared here\n0 errors, 1 warning /);
  });

  test("fails if there is nothing to check", async () => {
    const { folder } = await manifestFolder({ "pod.yaml": [{ apiVersion: "v1", kind: "Pod" }] });
    expect(await check(folder)).toEqual({
      status: 1,
      out: "",
      err: `${folder} has no object of Deputize.\n`,
    });
  });

  test("refuses a folder that does not exist, and two forms of output", async () => {
    await expect(check("/nowhere")).rejects.toThrow('"/nowhere" does not exist');
    await expect(check(ROOT, { json: true, github: true })).rejects.toThrow("exclude each other");
  });

  test("checks a single file", async () => {
    const { folder } = await manifestFolder({ "a.yaml": [shop], "b.yaml": "{" });
    expect(await checkJson(join(folder, "a.yaml"))).toMatchObject({ ok: true, files: 1, objects: 1 });
  });

  test("prints one JSON object with every finding", async () => {
    const { folder } = await manifestFolder({ "shop.yaml": [platform({ displayNam: "Shop" })] });
    expect(await checkJson(folder)).toEqual({
      ...{ ok: false, files: 1, objects: 1, bindings: 0, others: 0, skipped: [] },
      findings: [
        {
          severity: "error",
          rule: "definition",
          file: join(folder, "shop.yaml"),
          line: 14,
          column: 3,
          object: "Platform/default/example",
          path: "spec.displayNam",
          message: "unknown field",
          suggestion: "displayName",
        },
      ],
    });
  });

  test("prints annotations with paths from the top of the repository", async () => {
    const { folder, write } = await manifestFolder();
    await mkdir(join(folder, ".git"));
    await write("apps/a,b/50%.yaml", [platform({ displayNam: "Shop" })]);
    const { out, status } = await check(join(folder, "apps"), { github: true });
    expect(status).toBe(1);
    expect(out).toBe(
      "::error file=apps/a%2Cb/50%25.yaml,line=14,col=3,title=Platform/default/example::spec.displayNam: unknown field. Did you mean displayName?\n",
    );
  });

  test("returns its exit status to the shell", async () => {
    const { folder } = await manifestFolder({ "shop.yaml": [platform({ surfaceType: "paper" })] });
    const run = (...args: string[]) =>
      new Promise<unknown>((resolve) => {
        execFile(process.execPath, [join(ROOT, "src/main.ts"), "check", ...args], (error) =>
          resolve(error?.code ?? 0),
        );
      });
    const quickstart = join(ROOT, "docs/examples/quickstart");
    const statuses = [run(quickstart), run(folder), run(join(folder, "no")), run()];
    expect(await Promise.all(statuses)).toEqual([0, 1, 2, 2]);
  });
});

describe("deputize check suggests", () => {
  const header = "apiVersion: deputize.io/v1alpha1\n";

  test.each([
    [
      "a kind",
      `${header}kind: Platfrom\nmetadata: {name: a}\n`,
      'a.yaml:2:1 error kind: "Platfrom" is not a kind of deputize.io/v1alpha1 → Platform',
    ],
    [
      "a group",
      "apiVersion: deputise.io/v1alpha1\nkind: Agent\nmetadata: {name: a}\n",
      'a.yaml:1:1 error apiVersion: "deputise.io/v1alpha1" does not exist → deputize.io/v1alpha1',
    ],
    [
      "a version",
      "apiVersion: deputize.io/v1\nkind: Agent\nmetadata: {name: a}\n",
      'a.yaml:1:1 error apiVersion: "deputize.io/v1" does not exist → deputize.io/v1alpha1',
    ],
    [
      "a group for a kind without one",
      "apiVersion: v1\nkind: Platform\nmetadata: {name: a}\n",
      'a.yaml:1:1 error apiVersion: "v1" does not exist → deputize.io/v1alpha1',
    ],
    [
      "the field apiVersion",
      "apiVerson: deputize.io/v1alpha1\nkind: Agent\nmetadata: {name: a}\n",
      "a.yaml:1:1 error apiVerson: unknown field → apiVersion",
    ],
    [
      "the field kind",
      `${header}kid: Agent\nmetadata: {name: a}\n`,
      "a.yaml:2:1 error kid: unknown field → kind",
    ],
  ])("%s", async (_, text, finding) => {
    expect(await findingsIn({ "a.yaml": text })).toEqual([finding]);
  });

  test("lists the kinds for one that is like none of them", async () => {
    const [finding] = await findingsIn({ "a.yaml": `${header}kind: Zebra\nmetadata: {name: a}\n` });
    expect(finding).toMatch(/: it has Platform, Agent, Delegation$/);
  });

  test.each([
    [
      "a similar field",
      { ...shop, spec: { ...shop.spec, keyRotaton: {} } },
      "spec.keyRotaton",
      "keyRotation",
    ],
    [
      "a field in another style",
      { ...shop, spec: { ...shop.spec, callback_url: "" } },
      "spec.callback_url",
      "callbackUrl",
    ],
    [
      "a field of a nested object",
      { ...shop, spec: { ...shop.spec, secretTemplate: { anotations: {} } } },
      "spec.secretTemplate.anotations",
      "annotations",
    ],
    [
      "a field of a list's item",
      {
        ...shop,
        spec: {
          ...shop.spec,
          acceptedPrincipals: [{ humanId: "", scopes: ["data:read"], humanID: "0".repeat(32) }],
        },
      },
      "spec.acceptedPrincipals[0].humanId",
      "humanID",
    ],
    [
      "a field of the metadata",
      { ...shop, metadata: { ...shop.metadata, lables: {} } },
      "metadata.lables",
      "labels",
    ],
    ["the right place of a field", { ...request, scopes: ["data:read"] }, "scopes", "spec.scopes"],
  ])("%s", async (_, object, path, suggestion) => {
    const { folder } = await manifestFolder({ "a.yaml": [object] });
    const { findings } = await checkJson(folder);
    expect(findings).toContainEqual(expect.objectContaining({ path, message: "unknown field", suggestion }));
  });

  test("nothing for a field that is like none", async () => {
    const { folder } = await manifestFolder({ "a.yaml": [platform({ zzzzzz: 1 })] });
    const { findings } = await checkJson(folder);
    expect(findings).toMatchObject([{ path: "spec.zzzzzz", suggestion: null }]);
  });
});

describe("deputize check applies the API's rules", () => {
  test.each([
    [
      "an unknown scope",
      platform({ defaultAllowedScopes: ["data:raed"] }),
      "error",
      "spec.defaultAllowedScopes[0]",
      "data:read",
    ],
    [
      "the label of a scope of the vocabulary",
      platform({
        defaultAllowedScopes: ["custom:a:b"],
        scopeDescriptions: [{ scope: "custom:a:b", label: "Read data", description: "Reads" }],
      }),
      "error",
      "spec.scopeDescriptions",
      null,
    ],
    ["a name of two scripts", platform({ displayName: "Sh\u043ep" }), "error", "spec.displayName", null],
    [
      "a callback with a password",
      platform({ callbackUrl: "https://a:b@example.com/" }),
      "error",
      "spec.callbackUrl",
      null,
    ],
    [
      "a callback on this machine",
      platform({ callbackUrl: "https://127.0.0.1/events" }),
      "warning",
      "spec.callbackUrl",
      null,
    ],
    [
      "a redirect URI with an encoded parameter of the service",
      platform({ redirectURIs: ["https://example.com/", "https://example.com/?%73tate=1"] }),
      "error",
      "spec.redirectURIs[1]",
      null,
    ],
    [
      "constraints that exclude each other",
      delegation({
        scopes: ["data:read"],
        constraints: [{ type: "time_window", start: "09:00", end: "17:00", tz: "Mars/Olympus" }],
      }),
      "error",
      "spec.constraints",
      null,
    ],
    [
      "an expiry in the past",
      delegation({ scopes: ["data:read"], expiresAt: "2026-11-28T11:59:59Z" }),
      "warning",
      "spec.expiresAt",
      null,
    ],
  ])("to %s", async (_, object, severity, path, suggestion) => {
    const { folder } = await manifestFolder({ "a.yaml": [object] });
    const { findings } = await checkJson(folder);
    expect(findings.filter(({ rule }) => rule === "api")).toMatchObject([{ severity, path, suggestion }]);
  });

  test("to a redirect URI, which it quotes as the API does", async () => {
    const uri = "https://example.com/a/../b";
    const { folder } = await manifestFolder({ "a.yaml": [platform({ redirectURIs: [uri] })] });
    const { findings } = await checkJson(folder);
    expect(findings.map(({ message }) => message)).toEqual([
      `The redirect URI "${uri}" must be written as https://example.com/b`,
    ]);
  });

  test("to the next second", async () => {
    const { folder } = await manifestFolder({
      "a.yaml": [delegation({ expiresAt: "2026-11-28T12:00:01Z" })],
    });
    const { findings } = await checkJson(folder);
    expect(findings.filter(({ rule }) => rule === "api")).toEqual([]);
  });
});

describe("deputize check compares objects with each other", () => {
  test("accepts objects that fit together", async () => {
    expect(await findingsIn({ "a.yaml": [shop, bot, request] })).toEqual([]);
  });

  test("suggests the platform that a name most likely means", async () => {
    const [first] = await findingsIn({ "a.yaml": [shop, agent({ platformRef: { name: "shpo" } })] });
    expect(first).toMatch(/warning spec\.platformRef\.name: Platform shpo is not declared here → shop$/);
  });

  test("reports scopes beyond the platform's ceiling, also through a wildcard", async () => {
    const asks = delegation({ scopes: ["data:read", "payments:*"] });
    const [only, ...others] = await findingsIn({ "a.yaml": [shop, bot, asks] });
    expect(only).toMatch(/error spec\.scopes\[1\]: "payments:\*" grants .*, which is beyond the Platform's/);
    expect(others).toEqual([]);
  });

  test("reports an agent of another platform", async () => {
    const other = named(agent({ platformRef: { name: "bank" } }), "bot");
    const files = { "a.yaml": [shop, named(shop, "bank"), other, request] };
    expect(await findingsIn(files)).toEqual([
      expect.stringMatching(/error spec\.agentRef\.name: Agent bot belongs to Platform bank, not shop$/),
    ]);
  });

  test("reports two platforms with the same Secret", async () => {
    const other = named(platform({ credentialsSecretName: "shop-credentials" }), "bank");
    const found = await findingsIn({ "a.yaml": [shop, other] });
    expect(found).toHaveLength(2);
    expect(found[0]).toMatch(/error spec\.credentialsSecretName: Platform bank has its credentials in /);
  });

  test("reports a platform with the Secret of an agent", async () => {
    const shopBot = named(agent(), "bot");
    const found = await findingsIn({
      "a.yaml": [named(platform({ credentialsSecretName: "bot-agent-key" }), "shop"), shopBot],
    });
    expect(found).toEqual([
      expect.stringMatching(
        /error spec\.credentialsSecretName: Agent bot has its credentials in the same Secret/,
      ),
    ]);
  });

  test("reports every declaration of an object that is declared twice", async () => {
    const places = "declared more than once: a.yaml (document 1), b.yaml (document 2)";
    expect(await findingsIn({ "a.yaml": [shop], "b.yaml": [bot, shop] })).toEqual([
      `a.yaml:1:1 error ${places}`,
      expect.stringMatching(/^b\.yaml:\d+:1 error declared more than once/),
    ]);
  });

  const binding = (entry: string, more: object = {}) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "deputize-tenants", namespace: "deputize-system", ...more },
    data: { default: entry },
  });

  test("applies the ceiling of the namespace", async () => {
    const tenants = binding("accountEmail: a@example.test\nceiling: [data:read]\n");
    expect(await findingsIn({ "a.yaml": [shop], "t.yaml": [tenants] })).toEqual([
      expect.stringMatching(/error spec\.defaultAllowedScopes\[1\]: "payments:send" is beyond the namesp/),
    ]);
  });

  test("reports a faulty binding, also in a ConfigMap with the label", async () => {
    const labeled = { name: "more", labels: { "deputize.io/tenants": "true" } };
    const tenants = binding("accountMail: a@example.test\n", labeled);
    expect(await findingsIn({ "t.yaml": [tenants] })).toEqual([
      expect.stringMatching(/^t\.yaml:9:3 error data\.default: /),
    ]);
  });

  test("warns about a namespace that no binding names, and about a missing requester", async () => {
    const tenants = binding("accountEmail: a@example.test\nfourEyes: true\n");
    const elsewhere = { ...shop, metadata: { name: "shop", namespace: "defautl" } };
    const found = await findingsIn({ "a.yaml": [shop, bot, request, elsewhere], "t.yaml": [tenants] });
    expect(found).toEqual([
      expect.stringMatching(/warning spec\.requestedBy: is missing, so nobody can approve it in Kubernetes/),
      expect.stringMatching(/warning metadata\.namespace: no ConfigMap .* namespace defautl .* → default$/),
    ]);
  });

  test("reads JSON as kubectl does, also if its kind is escaped", async () => {
    const text = JSON.stringify(named(platform({ surfaceType: "paper" }), "shop"), null, "\t");
    const { folder } = await manifestFolder({
      "a/shop.json": text,
      "b.json": text.replace('"kind"', '"\\u006bind"').replace('"shop"', '"other"'),
    });
    const { findings, ...counts } = await checkJson(folder);
    expect(counts).toMatchObject({ files: 2, objects: 2, skipped: [] });
    expect(findings.map(({ object, path }) => `${object} ${path}`)).toEqual([
      "Platform/default/shop spec.surfaceType",
      "Platform/default/other spec.surfaceType",
    ]);
  });

  test("names what it skips: hidden files and folders, and JSON of other programs", async () => {
    const { folder } = await manifestFolder({
      "a.yaml": [shop],
      "package.json": "{}",
      "a/tsconfig.json": "{ // comment\n }",
      "a/.b.yaml": [bot],
      ".github/workflows/c.yaml": [bot],
      ".git/d.yaml": [bot],
      ".gitignore": "",
    });
    const skipped = [".github/", "a/.b.yaml", "a/tsconfig.json", "package.json"];
    expect(await checkJson(folder)).toMatchObject({ ok: true, files: 1, objects: 1, skipped });
    const { out } = await check(folder);
    expect(out).toContain(`1 object of 1 file. Skipped: ${skipped.join(", ")}.\n`);
    const { folder: hidden } = await manifestFolder({ ".a.yaml": [shop] });
    expect((await check(hidden)).err).toMatch(/has no object of Deputize\. Skipped: \.a\.yaml\.\n$/);
  });

  test("skips JSON of other programs that is too large, unreadable or unparsable", async () => {
    const large = JSON.stringify({ kind: "x".repeat(1024 * 1024) });
    const { folder } = await manifestFolder({
      "a.yaml": [shop],
      "latin.json": Buffer.from('{"kind":"\xe9"}', "latin1"),
      "package-lock.json": large,
      "twice.json": '{"kind":1,"kind":2}',
    });
    await symlink("nowhere.json", join(folder, "link.json"));
    const skipped = ["latin.json", "link.json", "package-lock.json", "twice.json"];
    expect(await checkJson(folder)).toMatchObject({ ok: true, files: 1, findings: [], skipped });
  });

  test("reports JSON that mentions the API group or the namespace bindings, whatever is wrong with it", async () => {
    const wide = Buffer.from(`{"a":1,"a":"deputize.io"}`, "utf16le");
    const misspelled = { apiVersion: shop.apiVersion, Kind: "Agent", metadata: { name: "bot" } };
    const found = await findingsIn({
      "escaped.json": '{"a":1,"a":"deputize\\u002eio"}',
      "kind.json": JSON.stringify(misspelled),
      "large.json": `${" ".repeat(1024 * 1024 - 5)}"deputize.io"`,
      "later.json": `${" ".repeat(1024 * 1024)}"\\u0064eputize.io"`,
      "latin.json": Buffer.from('"deputize.io \xe9"', "latin1"),
      "tenants.json": '{"metadata":{"name":"deputize-tenants"},"kind":"ConfigMap","kind":""}',
      "wide.json": Buffer.concat([Buffer.from([0xff, 0xfe]), wide]),
    });
    expect(found).toEqual([
      expect.stringMatching(/^escaped\.json:1:\d+ error .*/),
      expect.stringMatching(/^kind\.json:1:\d+ error Kind: unknown field → kind$/),
      "large.json:1:1 error has more than 1048576 bytes",
      "later.json:1:1 error has more than 1048576 bytes",
      "latin.json:1:1 error is not UTF-8",
      expect.stringMatching(/^tenants\.json:1:\d+ error .*/),
      "wide.json:1:1 error is not UTF-8",
    ]);
  });

  test("reads the items of a List, and leaves out other kinds", async () => {
    const list = {
      apiVersion: "v1",
      kind: "List",
      items: [shop, { apiVersion: "v1", kind: "Secret" }, { ...bot, spec: {} }],
    };
    const { folder } = await manifestFolder({ "a.yaml": [list, { resources: ["b.yaml"] }] });
    const { findings, ...counts } = await checkJson(folder);
    expect(counts).toEqual({ ok: false, files: 1, objects: 2, bindings: 0, others: 2, skipped: [] });
    expect(findings).toMatchObject([
      { path: "spec.platformRef", object: "Agent/default/bot" },
      { path: "spec.agentType", message: "is required" },
    ]);
    expect(findings[0]?.line).toBeGreaterThan(20);
  });
});

test("the definitions that the command reads are the installed ones", () => {
  expect(definitionsFolder).toBe(join(ROOT, "crds"));
});
