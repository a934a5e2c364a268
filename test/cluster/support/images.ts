import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { type Cluster, ROOT } from "./cluster.ts";
import { run } from "./run.ts";

const NAMES = ["deputize", "deputize-keyvault", "deputize-postgres"];

export const imageOf = (tag: string) => `localhost/deputize:${tag}`;

export const vaultImageOf = (tag: string) => `localhost/deputize-keyvault:${tag}`;

export const postgresImageOf = (tag: string) => `localhost/deputize-postgres:${tag}`;

/** Returns the path of an image archive that `npm run images` creates. */
export const archiveOf = (tag: string, name: string) =>
  join(homedir(), ".cache/deputize/images", tag, `${name}.tar`);

/**
 * Builds the images of this source tree and imports them into the cluster. With IMAGES=built, uses existing
 * archives instead of building.
 */
export async function importImages(cluster: Cluster, tag: string): Promise<void> {
  const archives = NAMES.map((name) => archiveOf(tag, name));
  if (process.env.IMAGES !== "built" || !archives.every(existsSync)) {
    const { NODE_EXTRA_CA_CERTS: authorities = "" } = process.env;
    const trusted = authorities === "" ? [] : ["--ca", authorities];
    await run("npm", ["run", "images", "--", "--tag", tag, "--local-base", ...trusted], { cwd: ROOT });
  }
  for (const archive of archives) await cluster.importImage(archive);
}
