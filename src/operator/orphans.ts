import type { LiveDelegation } from "../operator_calls.ts";

/** A delegation in force or awaiting approval that has no object in the cluster. */
export type Orphan = {
  externalID: string;
  kind: "Delegation";
  namespace: string | null;
  name: string | null;
  status: LiveDelegation["status"];
  /** When a sweep first found the delegation without an object. */
  since: string;
  /** When the operator will revoke the delegation. Absent without a grace period. */
  revokeAt?: string | undefined;
  /** Set once an administrator has confirmed that the delegation should end. */
  confirmed?: true | undefined;
};

/**
 * The result of the last sweep, for administrators and for the next leader. In state `held`, the operator
 * revokes nothing until an administrator confirms, and `why` is the reason.
 */
export type SweepRecord = {
  checkedAt: string;
  /** Epoch of the leader that wrote the record. */
  epoch: number;
  state: "ok" | "held";
  why?: string | undefined;
  items: Orphan[];
  /** How many orphans there are beyond `items`. */
  more?: number | undefined;
};

/** A record, and the epoch that an administrator confirmed. Only the record with this epoch is confirmed. */
export type HeldRecord = { record: SweepRecord; confirmed: number | undefined };

/** The input on which a sweep bases its decisions. */
export type SweepInput = {
  now: Date;
  epoch: number;
  /** The epoch of the former leader according to the API; `null` for the first leader. */
  formerEpoch: number | null;
  former: HeldRecord | undefined;
  /** All delegations of this cluster that are in force or await approval at the API. */
  live: readonly LiveDelegation[];
  /** The namespaces that the operator watches. If absent, it watches all namespaces. */
  watched?: readonly string[] | undefined;
  /** External ids of all Delegations in the cluster. */
  present: ReadonlySet<string>;
  /** Whether the cluster contains no object of any Deputize kind. */
  isEmpty: boolean;
  graceMs: number | undefined;
};

/** More orphans than this indicate a lost or restored cluster rather than individually deleted objects. */
const MANY = { least: 10, share: 0.2 };
/** Maximum number of items, so that the record fits into a ConfigMap. */
const MAX_ITEMS = 1_000;

/** The new record, and the external ids of the delegations to revoke. */
export type Sweep = { record: SweepRecord; revoke: string[] };

/**
 * Finds delegations without an object, and decides which of them to revoke. If the cluster may be restored,
 * emptied or new, revokes only orphans that an administrator confirmed.
 */
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
        before !== undefined &&
        (former?.confirmed === epoch || (before.confirmed === true && isFromKnownLeader(input)));
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

/** Returns whether the operator watches the namespace. If `watched` is absent, it watches all namespaces. */
function isSeen({ namespace }: LiveDelegation, { watched }: SweepInput): boolean {
  return watched === undefined || (namespace !== null && watched.includes(namespace));
}

/** Returns whether this leader or the former one wrote the record. If not, the cluster may be restored. */
function isFromKnownLeader({ epoch, formerEpoch, former }: SweepInput): boolean {
  return former?.record.epoch === epoch || former?.record.epoch === formerEpoch;
}

/** Returns why the unconfirmed orphans need a confirmation; `undefined` if they need none. */
function reasonToHold(input: SweepInput, count: number): string | undefined {
  const { epoch, formerEpoch, former, live, isEmpty } = input;
  const howTo = `Check the list. If these delegations should end, confirm with the annotation deputize.io/confirmed: "${epoch}"`;
  if (isEmpty) return `The cluster contains no Deputize object, so it may have been emptied. ${howTo}`;
  if (former?.record.state === "held" && former.confirmed !== epoch) {
    return `The sweep was held before, and nobody has confirmed it. ${howTo}`;
  }
  if (!isFromKnownLeader(input) && formerEpoch !== null) {
    return `The cluster does not know the last leader that the service knows, so it may be new or restored. ${howTo}`;
  }
  if (count > Math.max(MANY.least, live.length * MANY.share)) {
    return `${count} of ${live.length} delegations have no object, which is unusually many. ${howTo}`;
  }
  return undefined;
}
