import { agents } from "./cases/agents.ts";
import { bounds } from "./cases/bounds.ts";
import { changedDelegations } from "./cases/changes.ts";
import { constraints } from "./cases/constraints.ts";
import { controls } from "./cases/controls.ts";
import { delegations } from "./cases/delegations.ts";
import type { SchemaCase } from "./cases/manifests.ts";
import { metadata } from "./cases/metadata.ts";
import { platforms } from "./cases/platforms.ts";
import { remainingRules } from "./cases/remaining_rules.ts";
import { statuses } from "./cases/statuses.ts";

/** Valid and invalid objects, on both sides of each limit. */
export const schemaCases: SchemaCase[] = [
  ...metadata,
  ...platforms,
  ...agents,
  ...delegations,
  ...changedDelegations,
  ...constraints,
  ...bounds,
  ...controls,
  ...statuses,
  ...remainingRules,
].map(withoutUndefined);

function withoutUndefined(schemaCase: SchemaCase): SchemaCase {
  return JSON.parse(JSON.stringify(schemaCase)) as SchemaCase;
}
