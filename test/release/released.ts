import { execFile } from "node:child_process";
import { createPublicKey, type KeyObject, verify } from "node:crypto";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { freePort } from "../../src/dev/process/ports.ts";
import { addArtifact, bytesOf, sha256 } from "../../src/dev/release/layout.ts";
import { type ReleaseOptions, release } from "../../src/dev/release/release.ts";
import { cosignTag } from "../../src/dev/release/signing.ts";
import { createTerminal } from "../../src/dev/terminal.ts";
import { debianProgram } from "../support/debian.ts";
import { startGateway } from "../support/gateway.ts";

const run = promisify(execFile);

/** The names of the images in a release. */
export const NAMES = ["deputize", "deputize-keyvault", "deputize-postgres"] as const;

/** Builds a release with these options. Returns what `npm run release` would print. */
export async function releaseWith(options: ReleaseOptions): Promise<string> {
  let printed = "";
  const stream = { write: (text: string) => (printed += text) };
  await release(options, createTerminal({ out: stream, err: stream, color: false, json: false }));
  return printed;
}

/** A registry on this machine, and how to look at its content. */
export type Registry = {
  /** `<host>:<port>` */
  host: string;
  /** The folder in which the registry stores its content. */
  storage: string;
  /** Returns a manifest or blob. Throws `Error` if the registry does not have it. */
  read(repository: string, kind: "manifests" | "blobs", reference: string): Promise<Buffer>;
  stop(): Promise<void>;
};

/** Starts Debian's `docker-registry`. Throws `Error` if it or skopeo is missing. */
export async function startRegistry(): Promise<Registry> {
  const program = await debianProgram("/usr/bin/docker-registry", "docker-registry");
  if (program === undefined) throw new Error("Install docker-registry, which this test pushes to");
  if ((await debianProgram("/usr/bin/skopeo", "skopeo")) === undefined) throw new Error("Install skopeo");
  const host = `127.0.0.1:${await freePort()}`;
  const storage = await mkdtemp(join(tmpdir(), "deputize-registry-"));
  const read: Registry["read"] = async (repository, kind, reference) => {
    const headers = { accept: "application/vnd.oci.image.manifest.v1+json" };
    const response = await fetch(`http://${host}/v2/${repository}/${kind}/${reference}`, { headers });
    if (!response.ok) throw new Error(`${repository} ${reference}: ${response.status}`);
    return Buffer.from(await response.arrayBuffer());
  };
  const settings = {
    version: 0.1,
    storage: { filesystem: { rootdirectory: storage } },
    http: { addr: host },
  };
  const running = await startGateway({
    program,
    files: () => ({ "registry.json": JSON.stringify(settings) }),
    args: (folder) => ["serve", join(folder, "registry.json")],
    isReady: () =>
      fetch(`http://${host}/v2/`).then(
        ({ ok }) => ok,
        () => false,
      ),
  });
  const stop = async () => {
    await running.stop();
    await rm(storage, { recursive: true, force: true });
  };
  return { host, storage, read, stop };
}

/**
 * Writes small images as `npm run images` does, labeled with a commit. Each contains one file, because the
 * real images take minutes to build.
 */
export async function writeSmallImages(folder: string, commit: string): Promise<void> {
  await mkdir(folder);
  for (const name of NAMES) {
    const layout = join(folder, `${name}.oci`);
    await mkdir(layout);
    await writeFile(join(folder, "name"), name);
    await run("tar", ["-C", folder, "-cf", join(folder, "layer.tar"), "name"]);
    const content = await readFile(join(folder, "layer.tar"));
    const rootfs = { type: "layers", diff_ids: [`sha256:${sha256(content)}`] };
    const labels = { "org.opencontainers.image.revision": commit };
    const config = { architecture: "amd64", os: "linux", config: { Labels: labels }, rootfs };
    await addArtifact(layout, "small", {
      config: { mediaType: "application/vnd.oci.image.config.v1+json", content: bytesOf(config) },
      layers: [{ mediaType: "application/vnd.oci.image.layer.v1.tar", content }],
    });
    const archive = `docker-archive:${join(folder, `${name}.tar`)}:localhost/${name}:small`;
    await run("skopeo", ["--insecure-policy", "copy", "--quiet", `oci:${layout}:small`, archive]);
    await writeFile(
      join(folder, `${name}.cdx.json`),
      JSON.stringify({ bomFormat: "CycloneDX", subject: name }),
    );
  }
}

/**
 * Returns the names for which an artifact has a valid signature. Follows cosign's specification of
 * signatures, independently of the product's code.
 */
export async function signedNames(registry: Registry, repository: string, digest: string, publicKey: string) {
  const key = createPublicKey(await readFile(publicKey));
  const names: string[] = [];
  for (const { content, annotations } of await layersOf(registry, repository, cosignTag(digest, "sig"))) {
    const signature = Buffer.from(annotations["dev.cosignproject.cosign/signature"] ?? "", "base64");
    const { identity, image, type } = JSON.parse(content.toString()).critical;
    const isFor = image["docker-manifest-digest"] === digest && type === "cosign container image signature";
    if (isFor && verify("sha256", content, key, signature)) names.push(identity["docker-reference"]);
  }
  return names;
}

type Layer = { content: Buffer; mediaType: string; annotations: Record<string, string> };

async function layersOf(registry: Registry, repository: string, tag: string): Promise<Layer[]> {
  const manifest = JSON.parse((await registry.read(repository, "manifests", tag)).toString());
  return Promise.all(
    manifest.layers.map(async (layer: Layer & { digest: string }) => {
      const content = await registry.read(repository, "blobs", layer.digest);
      if (`sha256:${sha256(content)}` !== layer.digest) throw new Error(`${tag} has a changed blob`);
      return { ...layer, content };
    }),
  );
}

type Statement = {
  subject: { digest: { sha256: string } }[];
  predicateType: string;
  // biome-ignore lint/suspicious/noExplicitAny: statements of any type
  predicate: any;
};

/** Returns the statements about a manifest. Throws `Error` if one has no valid signature. */
export async function statementsOf(
  registry: Registry,
  repository: string,
  digest: string,
  publicKey: string,
) {
  const key = createPublicKey(await readFile(publicKey));
  const statements = new Map<string, Statement>();
  for (const { content } of await layersOf(registry, repository, cosignTag(digest, "att"))) {
    const statement = opened(JSON.parse(content.toString()), key);
    expect(statement.subject.map((each) => each.digest)).toEqual([{ sha256: digest.replace("sha256:", "") }]);
    statements.set(statement.predicateType, statement);
  }
  return statements;
}

type Envelope = { payloadType: string; payload: string; signatures: { sig: string }[] };

/** Verifies an envelope by the text of the DSSE specification, independently of the product's code. */
function opened({ payloadType, payload, signatures }: Envelope, key: KeyObject): Statement {
  const body = Buffer.from(payload, "base64").toString();
  const length = (text: string) => Buffer.byteLength(text);
  const signed = `DSSEv1 ${length(payloadType)} ${payloadType} ${length(body)} ${body}`;
  const isValid = signatures.some(({ sig }) =>
    verify("sha256", Buffer.from(signed), key, Buffer.from(sig, "base64")),
  );
  if (!isValid) throw new Error("no valid signature");
  return JSON.parse(body);
}

/** Changes one byte of a blob in the registry's storage. Returns a function that restores the byte. */
export async function tamper({ storage }: Registry, digest: string): Promise<() => Promise<void>> {
  const hash = digest.replace("sha256:", "");
  const path = join(storage, "docker/registry/v2/blobs/sha256", hash.slice(0, 2), hash, "data");
  const content = await readFile(path);
  const changed = Buffer.from(content);
  changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
  await writeFile(path, changed);
  return () => writeFile(path, content);
}
