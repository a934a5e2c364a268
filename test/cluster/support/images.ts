import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { type Cluster, ROOT } from "./cluster.ts";
import { run } from "./run.ts";

const NAMES = ["deputize", "deputize-keyvault", "deputize-postgres"];

/** The service's image of a tag. */
export const imageOf = (tag: string) => `localhost/deputize:${tag}`;

/** The vault's image of a tag. */
export const vaultImageOf = (tag: string) => `localhost/deputize-keyvault:${tag}`;

/** The trial's Postgres image of a tag. */
export const postgresImageOf = (tag: string) => `localhost/deputize-postgres:${tag}`;

/** Where `npm run images` leaves an image's archive. */
export const archiveOf = (tag: string, name: string) =>
  join(homedir(), ".cache/deputize/images", tag, `${name}.tar`);

/**
 * Builds the images of this tree, unless IMAGES=built says that they are, and brings them into the cluster.
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
