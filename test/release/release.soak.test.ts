import { execFile } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addArtifact } from "../../src/dev/release/layout.ts";
import { type Ran, ran } from "../support/outside_tools.ts";
import { NAMES, type Registry, startRegistry } from "./released.ts";

const ROOT = join(import.meta.dirname, "../..");
const CACHE = join(homedir(), ".cache", "deputize");
const run = promisify(execFile);
const { version } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));

/** Installs a Go program on first use. cosign takes 10 minutes, too long for a slow test. */
async function goTool(module: string, at: string): Promise<string> {
  const name = module.slice(module.lastIndexOf("/") + 1);
  const folder = join(CACHE, `${name}-${at}`);
  if (!existsSync(join(folder, name))) {
    await mkdir(folder, { recursive: true });
    await run("go", ["install", `${module}@v${at}`], { env: { ...process.env, GOBIN: folder } });
  }
  return join(folder, name);
}

let folder: string;
let out: string;
let registry: Registry;
let cosign: string;
let krew: string;

beforeAll(async () => {
  cosign = await goTool("github.com/sigstore/cosign/v2/cmd/cosign", "2.6.1");
  krew = await goTool("sigs.k8s.io/krew/cmd/krew", "0.4.3");
  // The folder for temporary files may be in memory and then too small for images.
  folder = await mkdtemp(join(CACHE, "release-test-"));
  out = join(folder, "out");
  registry = await startRegistry();
  const ca = [process.env.NODE_EXTRA_CA_CERTS ?? ""].filter(existsSync).flatMap((path) => ["--ca", path]);
  const to = ["--registry", `${registry.host}/team`, "--out", out];
  const command = ["src/dev/setup.mjs", "release", "--dry-run", "--local-base", ...ca, ...to];
  const { code, said } = await ran(process.execPath, command, { cwd: ROOT, ms: 30 * 60_000 });
  expect(code, said).toBe(0);
}, 60 * 60_000);
afterAll(async () => {
  await registry?.stop();
  await rm(folder, { recursive: true, force: true });
});

const TYPES = ["cyclonedx", "https://slsa.dev/provenance/v1"];
const repositories = [...NAMES, "charts/deputize"];

/** Runs a command of cosign as the documentation shows it. */
function verified(command: string, what: readonly string[], key = join(out, "deputize.pub")): Promise<Ran> {
  return ran(cosign, [command, "--key", key, "--insecure-ignore-tlog", ...what], { env: { HOME: folder } });
}

describe.each(repositories)("cosign on the release of %s", (repository) => {
  const reference = () => `${registry.host}/team/${repository}:${version}`;

  test("verifies the signature, the bill of materials and the provenance", async () => {
    const signature = await verified("verify", [reference()]);
    expect(signature.code, signature.said).toBe(0);
    expect(JSON.parse(signature.printed)[0].critical.identity["docker-reference"]).toBe(reference());
    for (const type of TYPES) {
      const { code, said } = await verified("verify-attestation", ["--type", type, reference()]);
      expect(code, said).toBe(0);
    }
  });

  test("refuses another key", async () => {
    const foreign = join(folder, "foreign.pub");
    const { publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    await writeFile(foreign, publicKey.export({ type: "spki", format: "pem" }));
    const refused = [
      await verified("verify", [reference()], foreign),
      ...(await Promise.all(
        TYPES.map((type) => verified("verify-attestation", ["--type", type, reference()], foreign)),
      )),
    ];
    for (const { code, said } of refused) {
      expect(said).toMatch(/no matching (signatures|attestations)/);
      expect(code).not.toBe(0);
    }
  });

  test("refuses other content under the same tag", async () => {
    const layout = await mkdtemp(join(folder, "changed-"));
    const content = Buffer.from("other");
    await addArtifact(layout, version, { layers: [{ mediaType: "text/plain", content }] });
    const to = `docker://${registry.host}/team/${repository}:${version}`;
    const how = ["--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false"];
    await run("skopeo", [...how, `oci:${layout}:${version}`, to]);
    const { code, said } = await verified("verify", [reference()]);
    expect(said).toContain("no signatures found");
    expect(code).not.toBe(0);
  });
});

describe("the released plugin", () => {
  const archive = () => join(out, `deputize-${version}.tgz`);

  test("has a signature that cosign verifies", async () => {
    const { code, said } = await verified("verify-blob", ["--signature", `${archive()}.sig`, archive()]);
    expect(code, said).toBe(0);
  });

  test("installs with krew and runs", async () => {
    const env = { KREW_ROOT: join(folder, "krew"), HOME: folder };
    const from = [`--manifest=${join(out, "deputize.yaml")}`, `--archive=${archive()}`];
    const { code, said } = await ran(krew, ["install", ...from], { env });
    expect(code, said).toBe(0);
    const { stdout } = await run(join(folder, "krew/bin/kubectl-deputize"), ["--help"]);
    expect(stdout).toContain("kubectl deputize <command>");
  });
});
