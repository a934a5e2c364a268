import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
const CONFIG = "application/vnd.oci.image.config.v1+json";

/** Type, digest (`sha256:` and 64 hexadecimal digits) and size of a blob, as in OCI's specification. */
export type Descriptor = {
  mediaType: string;
  digest: string;
  size: number;
  annotations?: Record<string, string>;
};

type Blob = { mediaType: string; content: Uint8Array; annotations?: Record<string, string> };

/** An artifact of an OCI layout. Without `config`, its configuration is that of an empty image. */
export type Artifact = { config?: Blob; layers: readonly Blob[] };

type Index = { schemaVersion: 2; manifests: Descriptor[] };

const NAME = "org.opencontainers.image.ref.name";

/** Returns the SHA-256 of bytes in hexadecimal digits. */
export const sha256 = (content: Uint8Array): string => createHash("sha256").update(content).digest("hex");

/** Adds an artifact to the OCI layout in `folder` under a tag. Returns the digest of its manifest. */
export async function addArtifact(
  folder: string,
  tag: string,
  { config, layers }: Artifact,
): Promise<string> {
  const stored = [];
  for (const layer of layers) stored.push(await addBlob(folder, layer));
  const manifest = {
    schemaVersion: 2,
    mediaType: MANIFEST,
    config: await addBlob(folder, config ?? emptyConfig(stored)),
    layers: stored,
  };
  const descriptor = await addBlob(folder, { mediaType: MANIFEST, content: bytesOf(manifest) });
  const index = await readIndex(folder);
  index.manifests.push({ ...descriptor, annotations: { [NAME]: tag } });
  await writeFile(join(folder, "index.json"), JSON.stringify(index));
  await writeFile(join(folder, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}');
  return descriptor.digest;
}

/** Returns the digest of the manifest with this tag. Throws `Error` if the layout does not have it. */
export async function digestOf(folder: string, tag: string): Promise<string> {
  const { manifests } = await readIndex(folder);
  const found = manifests.find(({ annotations }) => annotations?.[NAME] === tag);
  if (found === undefined) throw new Error(`${folder} has no manifest ${tag}`);
  return found.digest;
}

/** Returns the content of a JSON blob, such as a manifest. */
// biome-ignore lint/suspicious/noExplicitAny: blobs of any type
export async function readBlob(folder: string, digest: string): Promise<any> {
  return JSON.parse(await readFile(join(folder, "blobs", digest.replace(":", "/")), "utf8"));
}

/** Returns JSON as bytes. */
export const bytesOf = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

/** Returns an empty image configuration, for registries that accept only images. */
function emptyConfig(layers: readonly Descriptor[]): Blob {
  const rootfs = { type: "layers", diff_ids: layers.map(({ digest }) => digest) };
  return { mediaType: CONFIG, content: bytesOf({ architecture: "", os: "", config: {}, rootfs }) };
}

async function addBlob(folder: string, { content, ...described }: Blob): Promise<Descriptor> {
  const hash = sha256(content);
  const blobs = join(folder, "blobs", "sha256");
  await mkdir(blobs, { recursive: true });
  await writeFile(join(blobs, hash), content);
  return { ...described, digest: `sha256:${hash}`, size: content.length };
}

async function readIndex(folder: string): Promise<Index> {
  const text = await readFile(join(folder, "index.json"), "utf8").catch(() => undefined);
  return text === undefined ? { schemaVersion: 2, manifests: [] } : JSON.parse(text);
}
