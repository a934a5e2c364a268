import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { objectsOf, type Rendered } from "../render.ts";
import type { Values } from "../values.ts";

const FOLDER = join(import.meta.dirname, "../../../docs/examples/production");
/** Files of the example with objects that the chart does not create. */
export const FILES = ["external_secrets", "cloudnative_pg", "strimzi", "cert_manager", "gateway"] as const;

export const EXAMPLE = parse(await readFile(join(FOLDER, "values.yaml"), "utf8")) as Values;

/** The objects of the example, by file. */
export const OBJECTS = Object.fromEntries(
  await Promise.all(
    FILES.map(async (name) => [name, objectsOf(await readFile(join(FOLDER, `${name}.yaml`), "utf8"))]),
  ),
) as Record<(typeof FILES)[number], Rendered[]>;

export function ofKind(kind: string): Rendered[] {
  return Object.values(OBJECTS)
    .flat()
    .filter((object) => object.kind === kind);
}

/** Throws if there is no object of the kind, or several. */
export function theOnly(kind: string): Rendered {
  const [one, ...others] = ofKind(kind);
  if (one === undefined || others.length > 0) throw new Error(`not one ${kind} but ${others.length + 1}`);
  return one;
}
