import { chmod, cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { runLogged } from "../images/buildah.ts";
import { sha256 } from "./layout.ts";

/** Members of package.json that only development needs. `private` would forbid `npm publish`. */
const DEVELOPMENT = new Set(["private", "workspaces", "scripts", "devDependencies", "allowScripts"]);

/**
 * Writes the npm package with `kubectl deputize`, the guard and the webhook library to `out`. Returns the
 * name of the archive. Writes nothing to `root`, unlike `npm pack` there.
 */
export async function packPlugin(log: string, root: string, work: string, out: string): Promise<string> {
  const folder = join(work, "package");
  await mkdir(folder);
  const manifest = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const documents = manifest.files.filter((path: string) => path !== "dist");
  for (const path of ["LICENSE", "README.md", ...documents]) await cp(join(root, path), join(folder, path));
  const kept = Object.entries(manifest).filter(([name]) => !DEVELOPMENT.has(name));
  await writeFile(
    join(folder, "package.json"),
    `${JSON.stringify(Object.fromEntries(kept), undefined, 2)}\n`,
  );
  const compiler = join(root, "node_modules/typescript/bin/tsc");
  const to = ["--outDir", join(folder, "dist")];
  await runLogged(log, process.execPath, [compiler, "-p", join(root, "src/sdk"), ...to]);
  // npm makes programs executable when it installs them, but krew keeps the mode in the archive.
  for (const program of Object.values<string>(manifest.bin)) await chmod(join(folder, program), 0o755);
  await runLogged(log, "npm", ["pack", folder, "--pack-destination", out]);
  await rm(folder, { recursive: true });
  return `${manifest.name}-${manifest.version}.tgz`;
}

/** Writes the manifest `deputize.yaml` for krew. `url` is the address of the archive. */
export async function writeKrewManifest(out: string, archive: string, url: string): Promise<void> {
  const manifest = {
    apiVersion: "krew.googlecontainertools.github.com/v1alpha2",
    kind: "Plugin",
    metadata: { name: "deputize" },
    spec: {
      version: archive.replace(/^deputize-(.*)\.tgz$/, "v$1"),
      homepage: "https://deputize.io",
      shortDescription: "Approve, revoke and inspect delegations",
      description:
        "Approves, narrows, denies, revokes and inspects delegations, the authority that people lend to AI agents.\n",
      caveats: "Needs Node 20 or newer as `node` on the PATH.\n",
      platforms: [
        {
          selector: { matchExpressions: [{ key: "os", operator: "In", values: ["darwin", "linux"] }] },
          uri: url,
          sha256: sha256(await readFile(join(out, archive))),
          files: [{ from: "package/*", to: "." }],
          bin: "dist/plugin/main.js",
        },
      ],
    },
  };
  await writeFile(join(out, "deputize.yaml"), stringify(manifest, { lineWidth: 0 }));
}
