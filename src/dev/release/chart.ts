import { cp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { withValues } from "../chart/chart_readme.ts";
import { runLogged } from "../images/buildah.ts";
import { addArtifact, bytesOf } from "./layout.ts";
import type { Signed } from "./signing.ts";

const LOCAL_IMAGE = /repository: localhost\/([a-z-]+)\n( +)tag: ""\n +digest: ""\n/g;

/**
 * Adds the chart to the OCI layout `layout` under its version, in the form of `helm push`. The values of the
 * chart name the given images by digest. Returns the digest of the manifest. `seconds` is the time of the
 * files in the archive.
 */
export async function packChart(
  log: string,
  { source, work, layout, seconds }: { source: string; work: string; layout: string; seconds: number },
  images: ReadonlyMap<string, Signed>,
): Promise<string> {
  const folder = join(work, "deputize");
  await cp(source, folder, { recursive: true });
  const values = withImages(await readFile(join(folder, "values.yaml"), "utf8"), images);
  await writeFile(join(folder, "values.yaml"), values);
  const readme = join(folder, "README.md");
  await writeFile(readme, withValues(await readFile(readme, "utf8"), values));
  const chart = parse(await readFile(join(folder, "Chart.yaml"), "utf8"));
  const archive = join(work, `deputize-${chart.version}.tgz`);
  const owner = ["--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"];
  const stable = ["--format=ustar", "--sort=name", `--mtime=@${seconds}`, ...owner];
  await runLogged(log, "tar", [
    ...stable,
    "--use-compress-program=gzip -n",
    "-C",
    work,
    "-cf",
    archive,
    "deputize",
  ]);
  const content = await readFile(archive);
  return addArtifact(layout, chart.version, {
    config: { mediaType: "application/vnd.cncf.helm.config.v1+json", content: bytesOf(chart) },
    layers: [{ mediaType: "application/vnd.cncf.helm.chart.content.v1.tar+gzip", content }],
  });
}

/** Throws `Error` if the values do not name each image exactly once. */
function withImages(values: string, images: ReadonlyMap<string, Signed>): string {
  const named = new Set<string>();
  const changed = values.replaceAll(LOCAL_IMAGE, (_, name: string, indent: string) => {
    const { repository, digest } = images.get(name) ?? {};
    if (repository === undefined || named.has(name)) throw new Error(`The chart must not name ${name} here`);
    named.add(name);
    return `repository: ${repository}\n${indent}tag: ""\n${indent}digest: ${digest}\n`;
  });
  if (named.size !== images.size || changed.includes("repository: localhost/")) {
    throw new Error("The chart must name each image once, with an empty tag and digest");
  }
  return changed;
}
