import { type Definition, readDefinitions } from "./definition.ts";
import { withoutNulls } from "./nulls.ts";
import { rulesCheck } from "./rules.ts";
import { type Fault, structureCheck } from "./structure.ts";

export type { Fault };

/** An object as it would be stored, or what is wrong with it. */
export type Judgement = { object: object; faults?: never } | { object?: never; faults: Fault[] };

/** The kinds of `crds/`, each with everything the API server would check. */
export type Schemas = {
  /**
   * Takes or refuses an object as the API server would. `previous` is the object that is there, for rules
   * about change; without it the object is new.
   */
  judge(object: unknown, previous?: object): Judgement;
};

/** Compiles the definitions of a folder; those of the repository's `crds/` when none is given. */
export async function loadSchemas(folder?: string): Promise<Schemas> {
  const definitions = await readDefinitions(folder);
  const judges = new Map(definitions.map((definition) => [idOf(definition), judgeOf(definition)]));
  return {
    judge(object, previous) {
      const { apiVersion, kind } = (object ?? {}) as { apiVersion?: unknown; kind?: unknown };
      const judge = judges.get(idOf({ apiVersion, kind }));
      if (judge !== undefined) return judge(object, previous);
      return {
        faults: [{ path: "kind", message: `${String(apiVersion)} ${String(kind)} is not a known kind` }],
      };
    },
  };
}

function judgeOf({ schema }: Definition): Schemas["judge"] {
  const structureFaults = structureCheck(schema);
  const brokenRules = rulesCheck(schema);
  return (given, previous) => {
    const object = withoutNulls(schema, given) as object;
    const structure = structureFaults(object);
    const faults = structure.length > 0 ? structure : brokenRules(object, previous);
    return faults.length > 0 ? { faults } : { object };
  };
}

function idOf({ apiVersion, kind }: { apiVersion: unknown; kind: unknown }): string {
  return `${String(apiVersion)} ${String(kind)}`;
}
