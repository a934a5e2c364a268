import type { Predicate, Signed } from "./signing.ts";

/** How a release was built. Contains no times, so equal sources lead to equal statements. */
export type Build = {
  version: string;
  /** The commit, with `-dirty` if files differ from it. Empty outside a repository. */
  revision: string;
  /** SHA-256 of package-lock.json, which lists the hash of each npm package. */
  lock: string;
  /** Name of the base image, or undefined if the images come from an earlier `npm run images`. */
  base: string | undefined;
};

/** Returns the provenance of an artifact: https://slsa.dev/spec/v1.0/provenance. */
export function provenance(build: Build, name: string, parts: readonly Signed[] = []): Predicate {
  const { version, revision, lock, base } = build;
  const commit = /^([0-9a-f]+)(-dirty)?$/.exec(revision);
  const source = commit === null ? [] : [{ name: "source", digest: { gitCommit: commit[1] } }];
  const content = {
    buildDefinition: {
      buildType: "https://deputize.io/release/v1",
      externalParameters: { artifact: name, version, ...(base === undefined ? {} : { base }) },
      internalParameters: { sourceIsClean: commit !== null && commit[2] === undefined },
      resolvedDependencies: [
        ...source,
        { name: "package-lock.json", digest: { sha256: lock } },
        ...parts.map(({ repository, digest }) => ({ name: repository, digest: { sha256: hex(digest) } })),
      ],
    },
    runDetails: { builder: { id: "https://deputize.io/release/maintainer" } },
  };
  return { type: "https://slsa.dev/provenance/v1", content };
}

/** Returns a bill of materials in CycloneDX as a statement. */
export const billStatement = (content: object): Predicate => ({ type: "https://cyclonedx.org/bom", content });

/** Returns the chart's bill of materials: the images that it installs. */
export function billOfChart(version: string, images: readonly Signed[]): object {
  const components = images.map(({ repository, digest, tag }) => {
    const name = repository.slice(repository.lastIndexOf("/") + 1);
    const purl = `pkg:oci/${name}@${encodeURIComponent(digest)}?repository_url=${encodeURIComponent(repository)}`;
    const hashes = [{ alg: "SHA-256", content: hex(digest) }];
    return { type: "container", name: repository, version: tag, hashes, purl, "bom-ref": purl };
  });
  const main = {
    type: "application",
    name: "deputize-chart",
    version,
    "bom-ref": `deputize-chart@${version}`,
  };
  return billOf(main, components);
}

/**
 * Returns the bill of materials of the npm or the Python package: its hash, its license, and the packages
 * that it needs, without the versions that only an installation determines.
 */
export function billOfPackage({
  ecosystem,
  version,
  hash,
  needs,
}: {
  ecosystem: "npm" | "pypi";
  version: string;
  hash: string;
  needs: readonly string[];
}): object {
  const purl = `pkg:${ecosystem}/deputize@${version}`;
  const main = {
    ...{ type: "library", name: "deputize", version, purl, "bom-ref": purl },
    ...{ hashes: [{ alg: "SHA-256", content: hash }], licenses: [{ license: { id: "Apache-2.0" } }] },
  };
  const components = needs.map((name) => {
    const purl = `pkg:${ecosystem}/${name}`;
    return { type: "library", name, purl, "bom-ref": purl };
  });
  return billOf(main, components);
}

type Component = { "bom-ref": string; [member: string]: unknown };

function billOf(main: Component, components: readonly Component[]): object {
  const dependsOn = components.map((each) => each["bom-ref"]);
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.5.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: { component: main },
    components,
    dependencies: [{ ref: main["bom-ref"], dependsOn }],
  };
}

const hex = (digest: string): string => digest.replace("sha256:", "");
