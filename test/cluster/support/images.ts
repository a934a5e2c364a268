import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { type Cluster, ROOT } from "./cluster.ts";
import { run } from "./run.ts";

const NAMES = ["deputize", "deputize-keyvault", "deputize-postgres"];

/** The service's image of a tag. */
export const imageOf = (tag: string) => `localhost/deputize:${tag}`;

/** Builds the images where they are not built, and brings them into the cluster. */
export async function importImages(cluster: Cluster, tag: string): Promise<void> {
  const folder = join(homedir(), ".cache/deputize/images", tag);
  const archives = NAMES.map((name) => join(folder, `${name}.tar`));
  if (!archives.every(existsSync)) {
    await run("npm", ["run", "images", "--", "--tag", tag, "--local-base"], { cwd: ROOT });
  }
  for (const archive of archives) await cluster.importImage(archive);
}
