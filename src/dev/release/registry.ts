import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { runLogged } from "../images/buildah.ts";
import { UserError } from "../user_error.ts";
import { sha256 } from "./layout.ts";
import { cosignTag, type Signed } from "./signing.ts";

const run = promisify(execFile);
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?\//;
const REPOSITORY = /^([a-z0-9.-]+|\[[0-9a-f:]+\])(:\d+)?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)+$/;

/** Throws `UserError` if the prefix of repositories is not a host with a path. */
export function checkRegistry(registry: string): void {
  if (REPOSITORY.test(registry)) return;
  throw new UserError(
    `--registry ${JSON.stringify(registry)} is not a host with a path`,
    "Give the prefix of the images' names, such as registry.example.com/deputize",
  );
}

/** Converts an image archive to an OCI layout. Throws `UserError` with the end of the log. */
export async function unpackImage(log: string, archive: string, layout: string, tag: string): Promise<void> {
  await skopeo(log, "copy", "--quiet", `docker-archive:${archive}`, `oci:${layout}:${tag}`);
}

/** Throws `UserError` if the registry already has other content under this tag, or does not respond. */
export async function checkUnreleased({ repository, tag, digest }: Signed): Promise<void> {
  const reference = `${repository}:${tag}`;
  const args = ["inspect", `--tls-verify=${!isLocal(repository)}`, "--raw", `docker://${reference}`];
  const found = await run("skopeo", args, { encoding: "buffer", maxBuffer: 16 * 1_048_576 }).catch(
    (error: { stderr?: Buffer }) => {
      const why = error.stderr?.toString() ?? String(error);
      if (/manifest unknown|name unknown/.test(why)) return undefined;
      throw new UserError(
        `skopeo cannot read ${reference}:\n${why.trim()}`,
        "Check the address. For credentials, run: skopeo login <host>",
      );
    },
  );
  if (found === undefined || `sha256:${sha256(found.stdout)}` === digest) return;
  throw new UserError(
    `${reference} is already released with other content`,
    "Raise the version in package.json. To repeat a push that failed, use the same images with --images",
  );
}

/**
 * Copies an artifact to the registry after its signature and statements, so that nobody sees it unsigned.
 * Throws `UserError` with the end of the log.
 */
export async function publish(log: string, { layout, repository, tag, digest }: Signed): Promise<void> {
  for (const each of [cosignTag(digest, "att"), cosignTag(digest, "sig"), tag]) {
    const options = ["--quiet", "--preserve-digests", `--dest-tls-verify=${!isLocal(repository)}`];
    await skopeo(log, "copy", ...options, `oci:${layout}:${each}`, `docker://${repository}:${each}`);
  }
}

/** Returns whether a registry is on this machine, so that it may have no TLS. */
export const isLocal = (repository: string): boolean => LOOPBACK.test(repository);

/** Runs skopeo without this machine's signature policy, which is for images that the machine runs. */
const skopeo = (log: string, ...args: string[]): Promise<void> =>
  runLogged(log, "skopeo", ["--insecure-policy", ...args]);
