import { basename, dirname, join } from "node:path";

type LockedPackage = {
  version?: string;
  integrity?: string;
  license?: string;
  optional?: boolean;
  /** True if only development and optional packages depend on this package. */
  devOptional?: boolean;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
};

/** The part of package-lock.json that this file reads. Keys are installation folders. */
export type Lock = { packages: Record<string, LockedPackage | undefined> };

type Component = { name: string; version: string; purl: string; "bom-ref": string; [field: string]: unknown };

/**
 * Returns an image's bill of materials in CycloneDX 1.5: its npm packages with hashes and dependencies.
 * `root` is the root package's or workspace's folder in the lock. The result does not depend on when or where
 * the image is built. `npm sbom --workspace` would omit half of the packages.
 */
export function billOfMaterials(image: string, version: string, lock: Lock, root: string): object {
  const main = componentOf("application", image, version, {});
  const refs = new Map<string, string>();
  const components = new Map<string, Component>();
  const edges = new Map<string, Set<string>>();
  const visit = (folder: string): string => {
    const known = refs.get(folder);
    if (known !== undefined) return known;
    const locked = lock.packages[folder] ?? {};
    const component = componentOf("library", nameOf(folder), locked.version ?? "", locked);
    const ref = component["bom-ref"];
    refs.set(folder, ref);
    components.set(ref, component);
    // One version may be installed in two folders, whose dependencies can resolve differently.
    const needed = dependenciesOf(lock, folder).map(visit);
    edges.set(ref, new Set([...(edges.get(ref) ?? []), ...needed]));
    return ref;
  };
  const direct = directlyFrom(lock, root).map(visit).sort();
  const dependencies = [...edges].map(([ref, needed]) => ({ ref, dependsOn: [...needed].sort() }));
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.5.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: { component: main },
    components: sorted([...components.values()], (each) => each["bom-ref"]),
    dependencies: [{ ref: main["bom-ref"], dependsOn: direct }, ...sorted(dependencies, ({ ref }) => ref)],
  };
}

function directlyFrom(lock: Lock, root: string): string[] {
  return root.startsWith("node_modules/") ? [root] : dependenciesOf(lock, root);
}

/** Returns a package's dependencies without packages that are optional for the project: images lack those. */
function dependenciesOf(lock: Lock, folder: string): string[] {
  const { dependencies, optionalDependencies, peerDependencies } = lock.packages[folder] ?? {};
  const names = Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies });
  const isInstalled = (place: string) => {
    const { optional = false, devOptional = false } = lock.packages[place] ?? {};
    return !optional && !devOptional;
  };
  return names
    .map((name) => placeOf(lock, folder, name))
    .filter((place): place is string => place !== undefined && isInstalled(place));
}

/** Resolves a package as Node does: in the folder's `node_modules`, then in those of its parents. */
function placeOf(lock: Lock, from: string, name: string): string | undefined {
  for (let folder = from; ; folder = dirname(folder)) {
    const place = join(folder, "node_modules", name);
    if (basename(folder) !== "node_modules" && lock.packages[place] !== undefined) return place;
    if (folder === ".") return undefined;
  }
}

const nameOf = (folder: string) => folder.slice(folder.lastIndexOf("node_modules/") + "node_modules/".length);

function componentOf(type: string, name: string, version: string, locked: LockedPackage): Component {
  const { integrity = "", license } = locked;
  const [, algorithm, hash = ""] = /^sha(\d+)-(\S+)$/.exec(integrity) ?? [];
  const hashes = [{ alg: `SHA-${algorithm}`, content: Buffer.from(hash, "base64").toString("hex") }];
  const kind = type === "library" ? "npm" : "oci";
  return {
    type,
    "bom-ref": `${name}@${version}`,
    name,
    version,
    purl: `pkg:${kind}/${encodeURIComponent(name).replace("%2F", "/")}@${version}`,
    ...(algorithm === undefined ? {} : { hashes }),
    ...(license === undefined ? {} : { licenses: [{ expression: license }] }),
  };
}

function sorted<T>(items: readonly T[], keyOf: (item: T) => string): T[] {
  return items.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}
