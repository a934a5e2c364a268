import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../clock.ts";
import { type AnyObject, type CommonStatus, type Condition, FINALIZER, type Key, keyText } from "../kinds.ts";
import { type Fact, readiness, withFacts } from "../reconcile/conditions.ts";

import type { Known, Manifest, Plan } from "./plan.ts";
import { reportText } from "./state_file.ts";
import type { Store } from "./store.ts";

/** Applies a plan object by object. Applying a step again has no effect. */
export async function applyPlan(plan: Plan, { store, clock }: { store: Store; clock: Clock }): Promise<void> {
  await applyBindings(plan, store);
  for (const { key, manifest, file } of plan.accepted) {
    await store.change(key, accept(manifest, file, { clock }));
  }
  for (const { key, file } of plan.unchanged) await store.change(key, confirm(file));
  for (const key of plan.removed) await store.change(key, remove({ clock }));
  await applyRefusals(plan, { store, clock });
}

async function applyBindings({ bindings }: Plan, store: Store): Promise<void> {
  if (bindings === undefined) return;
  const next = bindings === "none" ? undefined : bindings;
  if (!isDeepStrictEqual(next, store.bindings())) await store.setBindings(next);
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

/** Only a folder sets this condition. It is False while the last accepted version of a manifest applies. */
const ACCEPTED = "Accepted";

type Change = (known: Known | undefined) => Known | undefined;

/** Creates an object, or gives it a new spec and generation, unless the object is being deleted. */
function accept(manifest: Manifest, file: string, { clock }: { clock: Clock }): Change {
  return (known) => {
    if (known === undefined) return { manifest: file, object: created(manifest, clock.now()) };
    const { object } = known;
    if (object.metadata.deletionTimestamp !== undefined) return known;
    const { uid, creationTimestamp, finalizers } = object.metadata;
    const isNewSpec = !isDeepStrictEqual(object.spec, manifest.spec);
    const generation = object.metadata.generation + (isNewSpec ? 1 : 0);
    const metadata = { ...manifest.metadata, uid, generation, creationTimestamp, finalizers };
    const next = { ...object, metadata, spec: manifest.spec } as AnyObject;
    return { manifest: file, object: withoutRefusal(next) };
  };
}

/** Removes an earlier refusal from an object whose manifest is unchanged, and records the manifest's file. */
function confirm(file: string): Change {
  return (known) => {
    if (known === undefined) return undefined;
    const object = withoutRefusal(known.object);
    return object === known.object && known.manifest === file ? known : { manifest: file, object };
  };
}

/** Records why a manifest is refused, and changes nothing else in the object. */
function refuse(message: string, { clock }: { clock: Clock }): Change {
  return (known) => {
    if (known === undefined) return undefined;
    const { object } = known;
    const at = { generation: object.metadata.generation, now: clock.now() };
    const note = { ...refusal(message), message: `${message}; the last accepted version stays in effect` };
    const conditions = withFacts(object.status.conditions ?? [], [note], at);
    if (conditions[0]?.message === conditionOfType(object.status)?.message) return known;
    return { ...known, object: { ...object, status: { ...object.status, conditions } } as AnyObject };
  };
}

/** Returns the status file of an object whose manifest was never accepted. */
function refusalReport(key: Key, file: string, message: string, { clock }: { clock: Clock }): string {
  const facts = [...readiness({ reason: "InvalidSpec", message }), refusal(message)];
  return reportText(key, file, withFacts([], facts, { generation: 0, now: clock.now() }));
}

/** Marks an object as deleted. An object without finalizers is removed immediately. */
function remove({ clock }: { clock: Clock }): Change {
  return (known) => {
    if (known === undefined || known.object.metadata.deletionTimestamp !== undefined) return known;
    const { object } = known;
    if (object.metadata.finalizers.length === 0) return undefined;
    const metadata = { ...object.metadata, deletionTimestamp: clock.now().toISOString() };
    return { ...known, object: { ...object, metadata } as AnyObject };
  };
}

/** Returns a change of the operator's finalizer. A deleted object disappears with its last finalizer. */
export function setFinalizer(uid: string, present: boolean): Change {
  return ofUid(uid, (known) => {
    const { metadata } = known.object;
    if (metadata.finalizers.includes(FINALIZER) === present) return known;
    const others = metadata.finalizers.filter((name) => name !== FINALIZER);
    const finalizers = present ? [...others, FINALIZER] : others;
    if (finalizers.length === 0 && metadata.deletionTimestamp !== undefined) return undefined;
    return { ...known, object: { ...known.object, metadata: { ...metadata, finalizers } } as AnyObject };
  });
}

/** Returns a change of the operator's part of the status. Keeps the approval and the folder's condition. */
export function writeStatus(uid: string, status: CommonStatus): Change {
  return ofUid(uid, (known) => {
    const { object } = known;
    const own = (status.conditions ?? []).filter(({ type }) => type !== ACCEPTED);
    const refused = conditionOfType(object.status);
    const approval = "approval" in object.status ? { approval: object.status.approval } : {};
    const next = { ...status, ...approval, conditions: refused === undefined ? own : [...own, refused] };
    return { ...known, object: { ...object, status: next } as AnyObject };
  });
}

function ofUid(uid: string, change: (known: Known) => Known | undefined): Change {
  return (known) => (known?.object.metadata.uid === uid ? change(known) : known);
}

function created({ metadata, ...manifest }: Manifest, now: Date): AnyObject {
  const { name, namespace, ...notes } = metadata;
  const own = { uid: randomUUID(), generation: 1, creationTimestamp: now.toISOString(), finalizers: [] };
  return { ...manifest, metadata: { name, namespace, ...own, ...notes }, status: {} } as unknown as AnyObject;
}

function refusal(message: string): Fact {
  return { type: ACCEPTED, status: "False", reason: "InvalidSpec", message };
}

function conditionOfType(status: CommonStatus): Condition | undefined {
  return status.conditions?.find(({ type }) => type === ACCEPTED);
}

function withoutRefusal(object: AnyObject): AnyObject {
  if (conditionOfType(object.status) === undefined) return object;
  const conditions = object.status.conditions?.filter(({ type }) => type !== ACCEPTED);
  return { ...object, status: { ...object.status, conditions } } as AnyObject;
}
