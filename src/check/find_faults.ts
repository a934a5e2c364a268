import { type Key, keyOf, keyText } from "../operator/kinds.ts";
import type { Definition } from "../operator/schema/read_crds.ts";
import { apiObjections, type Objection } from "./api_rules.ts";
import { joined, type Spot } from "./entries.ts";
import { folderObjections } from "./folder_rules.ts";
import { nearestField } from "./suggest.ts";
import type { World } from "./world.ts";

/**
 * One fault, or something that may be one. `rule` names the rules that it breaks: those for readable YAML, of
 * the definition in `crds/`, of the API, or those for objects that refer to each other.
 */
export type Fault = {
  severity: "error" | "warning";
  rule: "yaml" | "definition" | "api" | "references";
  spot: Spot;
  /** Known only for a file that is not YAML as a whole. */
  line?: number | undefined;
  key?: Key | undefined;
  /** The field in the object, such as `spec.scopes[0]`. Empty for the object or file as a whole. */
  path: string;
  message: string;
  suggestion?: string | undefined;
};

type Context = { definitions: readonly Definition[]; former?: World | undefined; now: Date };

/** Returns everything that the operator, the API server or the API would refuse, and what may be wrong. */
export function findFaults(world: World, { definitions, former, now }: Context): Fault[] {
  return [
    ...unusable(world),
    ...refused(world, definitions),
    ...twice(world),
    ...objected(world, former, now),
  ];
}

function unusable(world: World): Fault[] {
  const found = world.unusable.map(({ file, document, path, message, suggestion, line }): Fault => {
    const spot = { file, document, path };
    return { severity: "error", rule: "yaml", spot, path, message, suggestion, line };
  });
  const faulty = [...world.bindings].flatMap(([namespace, { spot, fault }]): Fault[] => {
    if (fault === undefined) return [];
    return [{ severity: "error", rule: "definition", spot, path: `data.${namespace}`, message: fault }];
  });
  return [...found, ...faulty];
}

function refused(world: World, definitions: readonly Definition[]): Fault[] {
  return world.refused.flatMap(({ spot, key, violations }) =>
    violations.map(({ path, message }): Fault => {
      const definition = definitions.find(({ kind }) => kind === key.kind);
      const isUnknown = message === UNKNOWN_FIELD && definition !== undefined;
      const suggestion = isUnknown ? nearestField(definition.schema, path) : undefined;
      return { severity: "error", rule: "definition", spot, key, path, message, suggestion };
    }),
  );
}

const UNKNOWN_FIELD = "unknown field";

function twice(world: World): Fault[] {
  const groups = [
    ...Map.groupBy(world.repeated, ({ key }) => keyText(key)).values(),
    ...Map.groupBy(world.repeatedBindings, ({ namespace, name }) => `${namespace}/${name}`).values(),
  ];
  return groups.flatMap((group) => {
    const places = group.map(({ spot: { file, document } }) => `${file} (document ${document})`).join(", ");
    return group.map((entry): Fault => {
      const key = "key" in entry ? entry.key : undefined;
      const message = `declared more than once: ${places}`;
      return { severity: "error", rule: "references", spot: entry.spot, key, path: "", message };
    });
  });
}

function objected(world: World, former: World | undefined, now: Date): Fault[] {
  return [...world.declared].flatMap(([id, declared]) => {
    const before = former?.declared.get(id)?.object;
    const toFault =
      (rule: Fault["rule"]) =>
      (objection: Objection): Fault => {
        const { path, message, suggestion, isWarning } = objection;
        const severity = isWarning === true ? "warning" : "error";
        const { spot, object } = declared;
        return { severity, rule, spot, key: keyOf(object), path, message, suggestion };
      };
    return [
      ...apiObjections(declared.object, before, now).map(toFault("api")),
      ...folderObjections(declared, world).map(toFault("references")),
    ];
  });
}

/** Returns the path of a fault in its document, which may be the item of a List. */
export function documentPath({ spot, path, key }: Fault): string {
  return key === undefined ? spot.path : joined(spot.path, path);
}
