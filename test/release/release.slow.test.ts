import { execFile } from "node:child_process";
import { createHash, createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { revision } from "../../src/dev/images/build.ts";
import { addArtifact } from "../../src/dev/release/layout.ts";
import { checkUnreleased } from "../../src/dev/release/registry.ts";
import { objectsOf } from "../chart/render.ts";
import { HELMS, helm, runHelm } from "../support/helm.ts";
import { ran } from "../support/outside_tools.ts";
import {
  NAMES,
  type Registry,
  releaseWith,
  signedNames,
  startRegistry,
  statementsOf,
  tamper,
  writeSmallImages,
} from "./released.ts";

const ROOT = join(import.meta.dirname, "../..");
const PASSPHRASE = "correct horse";
const run = promisify(execFile);
const { version } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
const commit = revision().replace("-dirty", "");
const helms = await Promise.all(HELMS.map(async (name) => ({ name, ...(await helm(name)) })));

let folder: string;
let out: string;
let registry: Registry;
let digests: Map<string, string>;
const file = (name: string) => join(folder, name);
const key = () => file("release.key");
const publicKey = () => join(out, "deputize.pub");

async function writeKey(path: string): Promise<void> {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const encrypted = { cipher: "aes-256-cbc", passphrase: PASSPHRASE };
  await writeFile(path, privateKey.export({ type: "pkcs8", format: "pem", ...encrypted }));
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-release-"));
  registry = await startRegistry();
  await writeSmallImages(file("images"), revision());
  await writeKey(key());
  await writeFile(file("passphrase"), `${PASSPHRASE}\n`);
  out = file("out");
  const signing = ["--key", key(), "--passphrase-file", file("passphrase")];
  const from = ["--images", file("images"), "--downloads", "https://downloads.example.com/v1/"];
  const to = ["--registry", `${registry.host}/team`, "--out", out];
  const command = ["src/dev/setup.mjs", "release", "--dry-run", ...signing, ...from, ...to];
  const { code, said } = await ran(process.execPath, command, { cwd: ROOT });
  expect(code, said).toBe(0);
  const listed = JSON.parse(await readFile(join(out, "release.json"), "utf8"));
  digests = new Map(
    listed.map((each: { reference: string; digest: string }) => [each.reference, each.digest]),
  );
});
afterAll(async () => {
  await registry?.stop();
  await rm(folder, { recursive: true, force: true });
});

const repositories = [...NAMES.map((name) => `team/${name}`), "team/charts/deputize"];
const digestIn = (repository: string): string =>
  digests.get(`${registry.host}/${repository}:${version}`) ?? "";

describe.each(repositories)("the release of %s", (repository) => {
  test("has a signature of the key for its name with its tag", async () => {
    const names = await signedNames(registry, repository, digestIn(repository), publicKey());
    expect(names).toEqual([`${registry.host}/${repository}:${version}`]);
  });

  test("has no signature of another key", async () => {
    const other = file("other.pub");
    const { publicKey: foreign } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    await writeFile(other, foreign.export({ type: "spki", format: "pem" }));
    expect(await signedNames(registry, repository, digestIn(repository), other)).toEqual([]);
    const statements = statementsOf(registry, repository, digestIn(repository), other);
    await expect(statements).rejects.toThrow("no valid signature");
  });

  test("has a bill of materials and provenance, both signed and about this digest", async () => {
    const statements = await statementsOf(registry, repository, digestIn(repository), publicKey());
    expect([...statements.keys()]).toEqual(["https://cyclonedx.org/bom", "https://slsa.dev/provenance/v1"]);
    expect(statements.get("https://cyclonedx.org/bom")?.predicate).toMatchObject({ bomFormat: "CycloneDX" });
    const lock = createHash("sha256")
      .update(await readFile(join(ROOT, "package-lock.json")))
      .digest("hex");
    expect(statements.get("https://slsa.dev/provenance/v1")?.predicate).toMatchObject({
      buildDefinition: {
        externalParameters: { version },
        resolvedDependencies: expect.arrayContaining([
          { name: "source", digest: { gitCommit: commit } },
          { name: "package-lock.json", digest: { sha256: lock } },
        ]),
      },
    });
  });

  test("cannot be pulled after its content in the registry has changed", async () => {
    const [host, at] = [registry.host, file(repository.replaceAll("/", "-"))];
    const pull = () => {
      const from = `docker://${host}/${repository}@${digestIn(repository)}`;
      return ran("skopeo", [
        "--insecure-policy",
        "copy",
        "--quiet",
        "--src-tls-verify=false",
        from,
        `dir:${at}`,
      ]);
    };
    await mkdir(at);
    expect(await pull()).toMatchObject({ code: 0 });
    const manifest = JSON.parse((await registry.read(repository, "manifests", version)).toString());
    const restore = await tamper(registry, manifest.layers[0].digest);
    expect(await pull()).toMatchObject({ code: 1, said: expect.stringContaining("did not match") });
    await restore();
  });
});

describe("the released chart", () => {
  const reference = () => `oci://${registry.host}/team/charts/deputize`;

  test.each(helms)("installs the released images by digest with helm $name", async ({ path, missing }) => {
    expect(missing).toBeUndefined();
    const where = ["--plain-http", "--version", version, "--kube-version", "1.33.0"];
    const home = { HOME: folder };
    const args = ["template", "deputize", reference(), ...where, "--set", "trial.enabled=true"];
    const { isGood, out: printed, err } = await runHelm(path ?? "", args, home);
    expect(isGood, err).toBe(true);
    const used = new Set(
      [...JSON.stringify(objectsOf(printed)).matchAll(/"image":"([^"]+)"/g)].map(([, x]) => x),
    );
    expect([...used].sort()).toEqual(
      NAMES.map((name) => `${registry.host}/team/${name}@${digestIn(`team/${name}`)}`).sort(),
    );
  });

  test("has a bill of materials that lists the images", async () => {
    const repository = "team/charts/deputize";
    const statements = await statementsOf(registry, repository, digestIn(repository), publicKey());
    const { components } = statements.get("https://cyclonedx.org/bom")?.predicate ?? {};
    const listed = components.map((each: { hashes: { content: string }[] }) => each.hashes[0]?.content);
    expect(listed.map((hash: string) => `sha256:${hash}`)).toEqual(
      NAMES.map((name) => digestIn(`team/${name}`)),
    );
  });
});

describe("the released plugin", () => {
  const archive = `deputize-${version}.tgz`;

  test("has a detached signature", async () => {
    const signature = Buffer.from(await readFile(join(out, `${archive}.sig`), "utf8"), "base64");
    const key = createPublicKey(await readFile(publicKey()));
    expect(verify("sha256", await readFile(join(out, archive)), key, signature)).toBe(true);
  });

  test("installs with npm in an empty folder and runs", async () => {
    const empty = file("empty");
    await mkdir(empty);
    await run("npm", ["install", "--offline", "--silent", "--prefix", empty, join(out, archive)], {
      cwd: empty,
    });
    const { stdout } = await run(join(empty, "node_modules/.bin/kubectl-deputize"), ["--help"]);
    expect(stdout).toContain("kubectl deputize <command>");
    const manifest = JSON.parse(await readFile(join(empty, "node_modules/deputize/package.json"), "utf8"));
    expect(Object.keys(manifest)).toEqual(expect.not.arrayContaining(["private", "scripts", "workspaces"]));
  });

  test("has a manifest for krew with the address, hash and program of the archive", async () => {
    const { spec } = parse(await readFile(join(out, "deputize.yaml"), "utf8"));
    const hash = createHash("sha256")
      .update(await readFile(join(out, archive)))
      .digest("hex");
    expect(spec.version).toBe(`v${version}`);
    expect(spec.platforms).toEqual([
      expect.objectContaining({ uri: `https://downloads.example.com/v1/${archive}`, sha256: hash }),
    ]);
    const { stdout } = await run("tar", ["-tvzf", join(out, archive), `package/${spec.platforms[0].bin}`]);
    expect(stdout).toMatch(/^-rwxr-xr-x/);
  });
});

describe("the released Python package", () => {
  const wheel = `deputize-${version}-py3-none-any.whl`;
  const sources = join(ROOT, "src/sdk/python/deputize");

  test("has a detached signature, and a bill of materials with its hash and the package that it needs", async () => {
    const content = await readFile(join(out, wheel));
    const signature = Buffer.from(await readFile(join(out, `${wheel}.sig`), "utf8"), "base64");
    expect(verify("sha256", content, createPublicKey(await readFile(publicKey())), signature)).toBe(true);
    const bill = JSON.parse(await readFile(join(out, `${wheel}.cdx.json`), "utf8"));
    const hash = createHash("sha256").update(content).digest("hex");
    expect(bill).toMatchObject({
      bomFormat: "CycloneDX",
      metadata: {
        component: { purl: `pkg:pypi/deputize@${version}`, hashes: [{ alg: "SHA-256", content: hash }] },
      },
      components: [{ purl: "pkg:pypi/httpx2" }],
    });
    const listed = JSON.parse(await readFile(join(out, "release.json"), "utf8"));
    expect(listed).toContainEqual({ file: wheel, digest: `sha256:${hash}` });
    expect(listed).toContainEqual({ file: `deputize-${version}.tgz`, digest: expect.any(String) });
  });

  test("has the sources and the license, the version of the release, and the time of the commit", async () => {
    const program = `import json, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
times = sorted({entry.date_time for entry in archive.infolist()})
print(json.dumps([archive.namelist(), archive.read(sys.argv[2]).decode(), times]))`;
    const metadata = `deputize-${version}.dist-info/METADATA`;
    const { printed } = await ran("python3", ["-c", program, join(out, wheel), metadata]);
    const [names, text, times] = JSON.parse(printed);
    expect(names).toContain(`deputize-${version}.dist-info/licenses/LICENSE`);
    const files = await readdir(sources, { recursive: true });
    const expected = files.filter((name) => /\.(py|typed)$/.test(name)).map((name) => `deputize/${name}`);
    expect(names.filter((name: string) => name.startsWith("deputize/")).sort()).toEqual(expected.sort());
    expect(text).toContain(`\nVersion: ${version}\n`);
    expect(text).toContain("\nLicense-Expression: Apache-2.0\n");
    const { stdout } = await run("git", ["log", "-1", "--format=%cd", "--date=format:%Y"], {
      cwd: ROOT,
      env: { ...process.env, TZ: "UTC" },
    });
    expect([times.length, times[0][0]]).toEqual([1, Number(stdout)]);
  });
});

describe("npm run release", () => {
  test("says that a dry run without a key cannot be published", async () => {
    const printed = await releaseWith({ dryRun: true, images: file("images"), out: file("unkept") });
    expect(printed).toContain("Signed with a new key that is not kept.");
    expect(printed).toContain("registry.example.com/deputize/charts/deputize@sha256:");
    expect(printed).toContain("Nothing was pushed.");
  });

  test("repeats a push of the same images and the same commit", async () => {
    const options = { dryRun: true, registry: `${registry.host}/team`, images: file("images") };
    await releaseWith({ ...options, out: file("again") });
    const both = [out, file("again")].map((each) => readFile(join(each, "release.json"), "utf8"));
    const [first, second] = await Promise.all(both);
    expect(second).toBe(first);
    expect(second).toContain(".whl");
  });

  test("refuses to replace a released version", async () => {
    const layout = file("changed");
    await mkdir(layout);
    const content = Buffer.from("other");
    const digest = await addArtifact(layout, version, { layers: [{ mediaType: "text/plain", content }] });
    const artifact = { layout, repository: `${registry.host}/team/deputize`, tag: version, digest };
    await expect(checkUnreleased(artifact)).rejects.toThrow("is already released with other content");
    await checkUnreleased({ ...artifact, digest: digestIn("team/deputize") });
    await checkUnreleased({ ...artifact, tag: "999.0.0" });
    const gone = { ...artifact, repository: "127.0.0.1:1/team/deputize" };
    await expect(checkUnreleased(gone)).rejects.toThrow("skopeo cannot read");
  });

  test("refuses images of another commit", async () => {
    await writeSmallImages(file("older"), "0".repeat(40));
    const refused = releaseWith({ dryRun: true, images: file("older"), out: file("from-older") });
    await expect(refused).rejects.toThrow("is from another commit");
  });
});
