import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { buildImages, IMAGES, revision } from "../images/build.ts";
import { IMAGES_FOLDER } from "../images/buildah.ts";
import { inStep, type Terminal } from "../terminal.ts";
import { UserError } from "../user_error.ts";
import { packChart } from "./chart.ts";
import { digestOf, readBlob, sha256 } from "./layout.ts";
import { packPlugin, writeKrewManifest } from "./plugin.ts";
import { checkRegistry, checkUnreleased, isLocal, publish, unpackImage } from "./registry.ts";
import {
  addAttestations,
  addSignature,
  ephemeralSigner,
  type Signed,
  type Signer,
  signerFrom,
} from "./signing.ts";
import { type Build, billOfChart, billOfPackage, billStatement, provenance } from "./statements.ts";
import { packWheel } from "./wheel.ts";

const ROOT = join(import.meta.dirname, "../../..");

/** Options of `npm run release`, as given on the command line. */
export type ReleaseOptions = {
  dryRun?: boolean;
  registry?: string;
  downloads?: string;
  key?: string;
  passphraseFile?: string;
  images?: string;
  base?: string;
  localBase?: boolean;
  ca?: string;
  out?: string;
};

/** The checked options of a release, and facts about its sources. */
type Plan = { registry: string; downloads: string; signer: Signer; build: Build; out: string; log: string };

/**
 * Builds a release in a folder: OCI layouts of the images and the chart with signatures, bills of materials
 * and provenance, the npm and the Python package, and the manifest for krew. Pushes the layouts to the
 * registry. A dry run pushes only to a registry on this machine. Throws `UserError`.
 */
export async function release(options: ReleaseOptions, terminal: Terminal): Promise<void> {
  const plan = await planOf(options, terminal);
  const { out, log, registry, build, signer } = plan;
  const work = await mkdtemp(join(out, "work-"));
  try {
    const archives = await archivesOf(options, plan, terminal);
    const images = new Map<string, Signed>();
    for (const { name } of IMAGES) {
      await inStep(terminal.step(name, `Signed image ${name}`), {}, async () => {
        images.set(name, await signedImage(plan, archives, name));
      });
    }
    const parts = [...images.values()];
    const chart = await inStep(terminal.step("chart", "Signed chart"), {}, async () => {
      const layout = await layoutFor(out, "chart");
      const source = join(ROOT, "charts/deputize");
      const digest = await packChart(log, { source, work, layout, seconds: commitTime() }, images);
      const artifact = { layout, repository: `${registry}/charts/deputize`, tag: build.version, digest };
      const bill = billOfChart(build.version, parts);
      await sign(signer, artifact, [billStatement(bill), provenance(build, "chart", parts)]);
      return artifact;
    });
    const packages = [
      await inStep(terminal.step("plugin", "kubectl deputize, for npm and krew"), {}, () =>
        addPlugin(plan, work),
      ),
      await inStep(terminal.step("wheel", "Python package"), {}, () => addWheel(plan, work)),
    ];
    await writeFile(join(out, "deputize.pub"), signer.publicKey);
    await finish({ artifacts: [...parts, chart], packages }, options, plan, terminal);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** A file of the release, and its digest: `sha256:` and 64 hexadecimal digits. */
type SignedFile = { file: string; digest: string };

async function finish(
  { artifacts, packages }: { artifacts: readonly Signed[]; packages: readonly SignedFile[] },
  { dryRun = false }: ReleaseOptions,
  { out, log, registry }: Plan,
  terminal: Terminal,
): Promise<void> {
  const pushes = !dryRun || isLocal(registry);
  if (pushes) {
    await inStep(terminal.step("push", `Push to ${registry}`), {}, async () => {
      for (const each of artifacts) await checkUnreleased(each);
      for (const each of artifacts) await publish(log, each);
    });
  }
  const listed = artifacts.map(({ repository, tag, digest }) => ({
    reference: `${repository}:${tag}`,
    digest,
  }));
  await writeFile(join(out, "release.json"), `${JSON.stringify([...listed, ...packages], undefined, 2)}\n`);
  for (const { repository, digest } of artifacts) terminal.line(`${repository}@${digest}`);
  terminal.line(pushes ? `The release is also in ${out}` : `Nothing was pushed. The release is in ${out}`);
}

async function planOf(options: ReleaseOptions, terminal: Terminal): Promise<Plan> {
  const { dryRun = false, key } = options;
  const missing = (["registry", "downloads", "key"] as const).find((name) => options[name] === undefined);
  if (!dryRun && missing !== undefined) {
    throw new UserError(
      `A release needs --${missing}`,
      "Try --dry-run first, which needs none of the options",
    );
  }
  const registry = options.registry ?? "registry.example.com/deputize";
  checkRegistry(registry);
  const from = revision();
  if (!dryRun && !/^[0-9a-f]+$/.test(from)) {
    throw new UserError("The files differ from the commit", "Release from a clean clone");
  }
  const { version } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
  const lock = sha256(await readFile(join(ROOT, "package-lock.json")));
  const built = options.localBase ? "Debian and the locked Node" : options.base;
  const signer = key === undefined ? ephemeralSigner() : await signerFrom(key, options.passphraseFile);
  const out = await emptyFolder(options.out, version);
  if (key === undefined) {
    terminal.warn("Signed with a new key that is not kept. Do not publish this release.");
  }
  return {
    registry,
    downloads: options.downloads ?? "https://downloads.example.com",
    signer,
    build: { version, revision: from, lock, base: options.images === undefined ? built : undefined },
    out,
    log: join(out, "release.log"),
  };
}

/** Returns the folder with the images' archives. Builds the images unless `--images` names a folder. */
async function archivesOf(options: ReleaseOptions, { build }: Plan, terminal: Terminal): Promise<string> {
  if (options.images !== undefined) return options.images;
  const { base, localBase, ca } = options;
  const archives = join(IMAGES_FOLDER, build.version);
  const how = { ...(base && { base }), ...(localBase && { localBase }), ...(ca && { ca }) };
  await buildImages({ tag: build.version, out: archives, ...how }, terminal);
  return archives;
}

async function signedImage({ out, log, registry, build, signer }: Plan, archives: string, name: string) {
  const layout = await layoutFor(out, name);
  const archive = join(archives, `${name}.tar`);
  if (!existsSync(archive)) {
    throw new UserError(`${archive} does not exist`, "Build it with npm run images, or omit --images");
  }
  await unpackImage(log, archive, layout, build.version);
  const digest = await digestOf(layout, build.version);
  // The provenance names the commit of this clone, so the image must be from the same commit.
  const { config } = await readBlob(layout, (await readBlob(layout, digest)).config.digest);
  if (config.Labels?.["org.opencontainers.image.revision"] !== build.revision) {
    throw new UserError(`${archive} is from another commit`, "Build the images again, or omit --images");
  }
  const artifact = { layout, repository: `${registry}/${name}`, tag: build.version, digest };
  const bill = JSON.parse(await readFile(join(archives, `${name}.cdx.json`), "utf8"));
  await sign(signer, artifact, [billStatement(bill), provenance(build, name)]);
  return artifact;
}

async function sign(signer: Signer, artifact: Signed, predicates: Parameters<typeof addAttestations>[2]) {
  await addSignature(signer, artifact);
  await addAttestations(signer, artifact, predicates);
}

async function addPlugin(plan: Plan, work: string): Promise<SignedFile> {
  const { out, log, downloads } = plan;
  const archive = await packPlugin(log, ROOT, work, out);
  await writeKrewManifest(out, archive, `${downloads.replace(/\/$/, "")}/${archive}`);
  return signFile(plan, archive, { ecosystem: "npm", needs: [] });
}

async function addWheel(plan: Plan, work: string): Promise<SignedFile> {
  const { out, log, build } = plan;
  const { version } = build;
  const { wheel, needs } = await packWheel(log, ROOT, { work, out, version, seconds: commitTime() });
  return signFile(plan, wheel, { ecosystem: "pypi", needs });
}

/** Writes the signature and the bill of materials of a package beside it. */
async function signFile(
  { out, build, signer }: Plan,
  file: string,
  contents: Pick<Parameters<typeof billOfPackage>[0], "ecosystem" | "needs">,
): Promise<SignedFile> {
  const content = await readFile(join(out, file));
  const hash = sha256(content);
  const bill = billOfPackage({ ...contents, version: build.version, hash });
  await writeFile(join(out, `${file}.sig`), signer.sign(content));
  await writeFile(join(out, `${file}.cdx.json`), `${JSON.stringify(bill, undefined, 2)}\n`);
  return { file, digest: `sha256:${hash}` };
}

async function layoutFor(out: string, name: string): Promise<string> {
  const layout = join(out, "oci", name);
  await mkdir(layout, { recursive: true });
  return layout;
}

/** Returns an empty folder. Deletes an earlier release only in the cache. Throws `UserError`. */
async function emptyFolder(named: string | undefined, version: string): Promise<string> {
  const out = named ?? join(homedir(), ".cache", "deputize", "release", version);
  if (named === undefined) await rm(out, { recursive: true, force: true });
  await mkdir(out, { recursive: true });
  if (readdirSync(out).length > 0) throw new UserError(`--out ${out} is not empty`, "Choose a new folder");
  return out;
}

/** Returns the time of the commit in seconds, or 0 outside a repository. */
function commitTime(): number {
  try {
    return Number(
      execFileSync("git", ["log", "-1", "--format=%ct"], { cwd: ROOT, encoding: "utf8", stdio: "pipe" }),
    );
  } catch {
    return 0;
  }
}
