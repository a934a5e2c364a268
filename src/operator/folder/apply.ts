import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../clock.ts";
import { keyText } from "../kinds.ts";
import { accept, confirm, refusalReport, refuse, remove } from "./changes.ts";
import type { Plan } from "./manifests/plan.ts";
import type { Store } from "./store.ts";

/** Does what a plan says, object by object. Steps that are done are not repeated. */
export async function applyPlan(plan: Plan, { store, clock }: { store: Store; clock: Clock }): Promise<void> {
  await applyTenants(plan, store);
  for (const { key, manifest, file } of plan.accepted) {
    await store.change(key, accept(manifest, file, { clock }));
  }
  for (const { key, file } of plan.unchanged) await store.change(key, confirm(file));
  for (const key of plan.removed) await store.change(key, remove({ clock }));
  await applyRefusals(plan, { store, clock });
}

async function applyTenants({ tenants }: Plan, store: Store): Promise<void> {
  if (tenants === undefined) return;
  const next = tenants === "none" ? undefined : tenants;
  if (!isDeepStrictEqual(next, store.tenants())) await store.setTenants(next);
}

async function applyRefusals(
  { refused }: Plan,
  { store, clock }: { store: Store; clock: Clock },
): Promise<void> {
  for (const { key, file, message } of refused) {
    await store.change(key, refuse(message, { clock }));
    await store.setReport(key, { message, text: refusalReport(key, file, message, { clock }) });
  }
  const current = new Set(refused.map(({ key }) => keyText(key)));
  for (const { key } of store.reports()) {
    if (!current.has(keyText(key))) await store.setReport(key, undefined);
  }
}
