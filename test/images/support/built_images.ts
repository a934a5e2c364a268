import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const ROOT = join(import.meta.dirname, "../../..");
const run = promisify(execFile);

/** The configuration of an image, as a container runtime reads it. */
export type ImageConfig = {
  User: string;
  Env: string[];
  Entrypoint: string[];
  WorkingDir: string;
  Healthcheck: { Test: string[] };
  Labels: Record<string, string>;
  StopSignal?: string;
};

/** An image that was unpacked from its archive. */
export type UnpackedImage = {
  root: string;
  config: ImageConfig;
  /** Total size of the image's layers in bytes. */
  size: number;
  references: string[];
  /** The complete image description, with the commands that built the image. */
  description: string;
  bill: { components: { name: string; version: string }[] };
};

/** Content of the file for `--ca`. No image may contain it. */
export const CA_MARKER = randomBytes(24).toString("hex");

/** Builds all images with the users' command, and unpacks them. */
export async function buildAndUnpack(folder: string): Promise<Record<string, UnpackedImage>> {
  const machine = ["/etc/ssl/certs/ca-certificates.crt", process.env.NODE_EXTRA_CA_CERTS ?? ""].find(
    existsSync,
  );
  const ca = join(folder, "ca.pem");
  await writeFile(ca, `${CA_MARKER}\n${machine === undefined ? "" : await readFile(machine, "utf8")}`);
  const out = join(folder, "out");
  const options = ["--tag", "under-test", "--local-base", "--ca", ca, "--out", out];
  await run(process.execPath, ["src/dev/setup.mjs", "images", ...options], { cwd: ROOT });
  const images: Record<string, UnpackedImage> = {};
  for (const name of ["deputize", "deputize-keyvault", "deputize-postgres"]) {
    images[name] = await unpack(out, name, join(folder, name));
  }
  return images;
}

async function unpack(out: string, name: string, folder: string): Promise<UnpackedImage> {
  const [parts, root] = [join(folder, "parts"), join(folder, "root")];
  for (const each of [parts, root]) await mkdir(each, { recursive: true });
  await run("tar", ["-xf", join(out, `${name}.tar`), "-C", parts]);
  const [manifest] = JSON.parse(await readFile(join(parts, "manifest.json"), "utf8"));
  const layers: string[] = manifest.Layers;
  for (const layer of layers) await run("tar", ["-xpf", join(parts, layer), "-C", root]);
  const sizes = await Promise.all(layers.map(async (layer) => (await readFile(join(parts, layer))).length));
  const description = await readFile(join(parts, manifest.Config), "utf8");
  return {
    root,
    config: JSON.parse(description).config,
    size: sizes.reduce((sum, size) => sum + size, 0),
    references: manifest.RepoTags,
    description,
    bill: JSON.parse(await readFile(join(out, `${name}.cdx.json`), "utf8")),
  };
}
