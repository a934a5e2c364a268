import type { LiveDelegation } from "../operator_calls.ts";

/** A delegation that is in force or can still be approved although its object is not in the cluster. */
export type Orphan = {
  externalID: string;
  kind: "Delegation";
  namespace: string | null;
  name: string | null;
  status: LiveDelegation["status"];
  /** When it was first found so. */
  since: string;
  /** When it is revoked, if an administrator has set a grace. */
  revokeAt?: string | undefined;
  /** An administrator has confirmed that it shall end. */
  confirmed?: true | undefined;
};

/**
 * What the operator found out last, for people and for the next leader. `held`: nothing is revoked until an
 * administrator has confirmed, for the reason `why`.
 */
export type SweepRecord = {
  checkedAt: string;
  /** The epoch of the leader that wrote it. */
  epoch: number;
  state: "ok" | "held";
  why?: string | undefined;
  items: Orphan[];
  /** How many more there are. */
  more?: number | undefined;
};

/**
 * A record and the epoch that an administrator has confirmed at it. That is good for what the record lists,
 * and for nothing that loses its object later.
 */
export type HeldRecord = { record: SweepRecord; confirmed: number | undefined };

/** What a sweep looks at. */
export type SweepInput = {
  now: Date;
  epoch: number;
  /** The epoch of the leader before, as the API knows it; `null` for the first one. */
  formerEpoch: number | null;
  former: HeldRecord | undefined;
  /** All that the API has in force or waiting for this cluster. */
  live: readonly LiveDelegation[];
  /** The namespaces whose objects are seen; all, when left out. */
  watched?: readonly string[] | undefined;
  /** External ids of all Delegations in the cluster. */
  present: ReadonlySet<string>;
  /** Whether there is any object of ours in the cluster. */
  isEmpty: boolean;
  graceMs: number | undefined;
};

/** So many at once are no accident of one object. */
const MANY = { least: 10, share: 0.2 };
/** What fits into a ConfigMap. */
const MAX_ITEMS = 1_000;

/** What is recorded now, and what is to be revoked. */
export type Sweep = { record: SweepRecord; revoke: string[] };

/** Finds delegations without an object. What may be a restored, emptied or new cluster is held. */
export function sweep(given: SweepInput): Sweep {
  const input = { ...given, live: given.live.filter((each) => isSeen(each, given)) };
  const { now, epoch, former, live, present, graceMs } = input;
  const known = new Map(former?.record.items.map((item) => [item.externalID, item]));
  const orphans = live
    .filter(({ external_id }) => !present.has(external_id))
    .map(({ external_id, namespace, name, status }): Orphan => {
      const before = known.get(external_id);
      const since = before?.since ?? now.toISOString();
      const isConfirmed =
        before !== undefined && (former?.confirmed === epoch || (before.confirmed === true && isOurs(input)));
      const revokeAt =
        graceMs === undefined ? undefined : new Date(Date.parse(since) + graceMs).toISOString();
      return {
        externalID: external_id,
        kind: "Delegation",
        namespace,
        name,
        status,
        since,
        ...(revokeAt !== undefined && { revokeAt }),
        ...(isConfirmed && { confirmed: true }),
      };
    });
  const open = orphans.filter(({ confirmed }) => confirmed !== true);
  const why = open.length === 0 ? undefined : reasonToHold(input, open.length);
  const record: SweepRecord = {
    checkedAt: now.toISOString(),
    epoch,
    state: why === undefined ? "ok" : "held",
    ...(why !== undefined && { why }),
    items: orphans.slice(0, MAX_ITEMS),
    ...(orphans.length > MAX_ITEMS && { more: orphans.length - MAX_ITEMS }),
  };
  const due = orphans.filter(
    ({ revokeAt, confirmed }) =>
      revokeAt !== undefined &&
      Date.parse(revokeAt) <= now.getTime() &&
      (why === undefined || confirmed === true),
  );
  return { record, revoke: due.map(({ externalID }) => externalID) };
}

/** What lies where nobody looks is not missed, nor what does not say where it lies. */
function isSeen({ namespace }: LiveDelegation, { watched }: SweepInput): boolean {
  return watched === undefined || (namespace !== null && watched.includes(namespace));
}

/**
 * Whether the record is this leader's own or that of the one before: the cluster was not restored between.
 */
function isOurs({ epoch, formerEpoch, former }: SweepInput): boolean {
  return former?.record.epoch === epoch || former?.record.epoch === formerEpoch;
}

/** Why those that nobody has confirmed are held, if they are. */
function reasonToHold(input: SweepInput, count: number): string | undefined {
  const { epoch, formerEpoch, former, live, isEmpty } = input;
  const howTo = `Look at the list; if these shall end, confirm with the annotation deputize.io/confirmed: "${epoch}"`;
  if (isEmpty) return `The cluster has no object of ours, as one that was emptied. ${howTo}`;
  if (former?.record.state === "held" && former.confirmed !== epoch) {
    return `It was held before and nobody has confirmed. ${howTo}`;
  }
  if (!isOurs(input) && formerEpoch !== null) {
    return `The cluster does not know the service's last leader, as one that is new or was restored. ${howTo}`;
  }
  if (count > Math.max(MANY.least, live.length * MANY.share)) {
    return `${count} of ${live.length} delegations have no object, which are many at once. ${howTo}`;
  }
  return undefined;
}
