import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Cluster, ROOT } from "./cluster.ts";
import { archiveOf } from "./images.ts";
import { CHART } from "./release.ts";
import { run } from "./run.ts";
import type { Tools } from "./tools.ts";

/** The version of the next chart, and the tag of its images. */
export const NEXT = "9.0.0";

/** A migration of the next version. The column that it adds does not disturb this version. */
export const MIGRATION = "9000_made_for_the_test";
const CHANGED = [
  {
    image: "deputize",
    migrations: "src/db",
    sql: "alter table platforms add column made_for_the_test text not null default 'new'",
  },
  {
    image: "deputize-keyvault",
    migrations: "keyvault/db",
    sql: "create table made_for_the_test (id int primary key)",
  },
];

/** Builds images of the next version, each with one more migration, and imports them. */
export async function importNextImages(cluster: Cluster, folder: string, tag: string): Promise<void> {
  const storage = [
    "--root",
    join(folder, "storage"),
    "--runroot",
    join(folder, "run"),
    "--storage-driver",
    "vfs",
  ];
  const buildah = (...args: string[]) => run("buildah", [...storage, ...args]);
  for (const { image, migrations, sql } of CHANGED) {
    const changed = join(folder, image, migrations);
    await mkdir(join(changed, "migrations"), { recursive: true });
    const own = `export const madeForTheTest = ${JSON.stringify({ name: MIGRATION, sql })};\n`;
    await writeFile(join(changed, "migrations", `${MIGRATION}.ts`), own);
    await writeFile(join(changed, "migrate.ts"), await withOneMore(join(ROOT, migrations, "migrate.ts")));
    const container = (
      await buildah("from", "--pull-never", `docker-archive:${archiveOf(tag, image)}`)
    ).trim();
    await buildah("copy", container, join(folder, image), "/app");
    const archive = join(folder, `${image}.tar`);
    await buildah("commit", "--rm", container, `docker-archive:${archive}:localhost/${image}:${NEXT}`);
    await cluster.importImage(archive);
  }
}

/** Returns the list of migrations with `MIGRATION` at its end. */
async function withOneMore(file: string): Promise<string> {
  const text = await readFile(file, "utf8");
  const end = text.indexOf("\n];", text.indexOf("const migrations"));
  if (end === -1) throw new Error(`${file} has no list of migrations`);
  const own = `import { madeForTheTest } from "./migrations/${MIGRATION}.ts";\n`;
  return `${own}${text.slice(0, end)}\n  madeForTheTest,${text.slice(end)}`;
}

/** Packages the chart as the next version, and returns the path of the package. */
export async function packageNextChart(tools: Tools, folder: string): Promise<string> {
  await tools.helm("package", CHART, "--version", NEXT, "--app-version", NEXT, "--destination", folder);
  return join(folder, `deputize-${NEXT}.tgz`);
}
