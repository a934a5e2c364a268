import type { AuditRow, Pending } from "../db/rows.ts";
import {
  emptyPart,
  emptyRest,
  type Last,
  PARTS,
  partOf,
  type RegisterPart,
  type RegisterRest,
} from "./last_states_parts.ts";
import { GENESIS } from "./record.ts";
import type { Head } from "./writer_connection.ts";

/** Kinds of objects whose state has a code: keys, identified by id, and tenants, identified by name. */
export type StateKind = "key" | "tenant";

/**
 * A root key's last revocation list: SHA-256 of its signed bytes, and the digest of its stored certificates.
 */
export type LastList = { digest: Buffer; updatedAt: number; listed: string | null };

/**
 * The state of the vault according to its audit, kept in memory: the last state of every key and tenant, the
 * tenants' root keys, the last revocation lists, and adoption. It contains only records with verified codes,
 * and records that this process wrote durably. So nobody can change the register through the database.
 */
export type Register = {
  head(): Head;
  /** Adds records that are verified or durable. They must be in order and follow the head. */
  apply(records: readonly AuditRow[]): void;
  /**
   * Adds records that are being committed. {@link Register.isLast} accepts them until the next call of
   * `apply` or `awaiting`.
   */
  awaiting(records: readonly AuditRow[]): void;
  /** Returns whether record `seq` set the object's last state and `digest` is the SHA-256 of that state. */
  isLast(kind: StateKind, name: string, seq: number | null, digest: Buffer): boolean;
  /** Returns the number of the record that set the object's last state, or 0 if there is none. */
  changedAt(kind: StateKind, name: string): number;
  /** Returns whether the key's seeds or the tenant's data key were erased. */
  isErased(kind: StateKind, name: string): boolean;
  /** Names of all tenants that ever received a key. */
  tenants(): Iterable<string>;
  /** Ids of all root keys that a tenant ever received. */
  rootsOf(tenant: string): readonly string[];
  lastList(keyId: string): LastList | undefined;
  /**
   * Returns whether an earlier version stored the object without a code, and it has never had a code since.
   */
  isAdoptable(kind: StateKind, name: string): boolean;
  /** Returns the latest adoption request that waits for a second admin. */
  adoptionWish(): Pending | null;
  /** Returns the content of the part at this index as of {@link head}, and how often it has changed. */
  part(index: number): { content: RegisterPart; changes: number };
  rest(): RegisterRest;
  /**
   * Resets the register to parts that were saved at `head` or later. Adding the records after `head` again
   * gives the same result. Without an argument, the register becomes empty.
   */
  begin(from?: { head: Head; parts: readonly RegisterPart[]; rest: RegisterRest }): void;
};

type NamedState = { kind: StateKind; name: string; last: Last };

const KEY_CHANGES = new Set([
  "key_disable",
  "key_enable",
  "key_destroy",
  "key_destroy_cancel",
  "key_erase",
  "ceiling_shrink",
]);
const TENANT_CHANGES = new Set(["tenant_destroy", "tenant_destroy_cancel", "tenant_erase"]);

/** Returns an empty register, for a chain that has no records yet. */
export function createRegister(): Register {
  let parts: RegisterPart[] = Array.from({ length: PARTS }, emptyPart);
  let rest = emptyRest();
  let head: Head = { seq: 0, mac: GENESIS };
  const changes = new Uint32Array(PARTS);
  const awaited = new Map<string, Last>();

  const find = (kind: StateKind, name: string): Last | undefined => parts[partOf(name)]?.[kind].get(name);

  /** Returns the part that contains the name, and increments the part's change counter. */
  function partToChange(name: string): RegisterPart {
    const index = partOf(name);
    changes[index] = (changes[index] ?? 0) + 1;
    return parts[index] ?? emptyPart();
  }

  function statesOf(record: AuditRow): NamedState[] {
    const { seq, statement, key_id: keyId, detail } = record;
    if (record.outcome !== "granted") return [];
    const last = (digest: string | undefined, erased = false): Last => {
      return { seq, digest, coded: rest.allCoded || digest !== undefined, erased };
    };
    if (statement === "key_create") return isCreation(record) ? created(record, last) : [];
    if (statement === "state_adopt") return adopted(detail, last);
    const digest = record.digest?.toString("latin1");
    if (KEY_CHANGES.has(statement) && keyId !== null) {
      return [{ kind: "key", name: keyId, last: last(digest, statement === "key_erase") }];
    }
    if (TENANT_CHANGES.has(statement) && detail.tenant !== undefined) {
      return [{ kind: "tenant", name: detail.tenant, last: last(digest, statement === "tenant_erase") }];
    }
    return [];
  }

  function created(
    { key_id: keyId, detail: { tenant, state } }: AuditRow,
    last: (digest: string | undefined) => Last,
  ): NamedState[] {
    const digest = state === undefined ? undefined : textOf(state);
    const key: NamedState[] = keyId === null ? [] : [{ kind: "key", name: keyId, last: last(digest) }];
    if (tenant === undefined || find("tenant", tenant) !== undefined) return key;
    const first = { ...last(undefined), coded: rest.allCoded || digest !== undefined };
    return [...key, { kind: "tenant", name: tenant, last: first }];
  }

  function applyRecord(record: AuditRow): void {
    for (const { kind, name, last } of statesOf(record)) partToChange(name)[kind].set(name, last);
    if (record.outcome === "granted") applyDetail(record);
    head = { seq: record.seq, mac: record.mac };
  }

  function applyDetail(record: AuditRow): void {
    const { statement } = record;
    if (isCreation(record)) {
      applyRoot(record);
    } else if (statement === "state_adopt") {
      applyAdoption(record);
    } else if (statement === "revocation_list") applyList(record);
  }

  function applyList({ key_id: keyId, digest, detail }: AuditRow): void {
    if (keyId === null || digest === null || detail.place === undefined) return;
    partToChange(keyId).lists.set(keyId, {
      digest: digest.toString("latin1"),
      updatedAt: Number(detail.place),
      listed: detail.listed ?? null,
    });
  }

  function applyRoot({ key_id: keyId, purpose, detail: { tenant } }: AuditRow): void {
    if (keyId === null || tenant === undefined || purpose !== "account_root") return;
    const { roots } = partToChange(tenant);
    const known = roots.get(tenant) ?? [];
    if (!known.includes(keyId)) roots.set(tenant, [...known, keyId]);
  }

  function applyAdoption({ seq, caller, recorded_at, detail }: AuditRow): void {
    if (detail.step === "asked") {
      rest.wish = {
        action: "adopt",
        admin: caller,
        asked_at: recorded_at.toISOString(),
        rows: detail.rows ?? "",
        ...(detail.certificate !== undefined && { certificate: detail.certificate }),
      };
    } else {
      rest.wish = null;
    }
    if (detail.step !== undefined) return;
    rest.earlierAdoptions.add(seq);
    if (detail.rows === "0") rest.allCoded = true;
  }

  return {
    head: () => head,
    apply(records) {
      awaited.clear();
      for (const record of records) applyRecord(record);
    },
    awaiting(records) {
      awaited.clear();
      for (const record of records) {
        for (const { kind, name, last } of statesOf(record)) awaited.set(`${kind} ${name}`, last);
      }
    },
    isLast(kind, name, seq, digest) {
      if (seq === null) return false;
      const matches = (last: Last | undefined): boolean =>
        last?.seq === seq && (last.digest === undefined || last.digest === digest.toString("latin1"));
      const known = find(kind, name);
      if (matches(known) || matches(awaited.get(`${kind} ${name}`))) return true;
      return known !== undefined && !known.coded && seq > known.seq && rest.earlierAdoptions.has(seq);
    },
    changedAt: (kind, name) => find(kind, name)?.seq ?? 0,
    isErased: (kind, name) => find(kind, name)?.erased === true,
    *tenants() {
      for (const { tenant } of parts) yield* tenant.keys();
    },
    rootsOf: (tenant) => parts[partOf(tenant)]?.roots.get(tenant) ?? [],
    lastList(keyId) {
      const last = parts[partOf(keyId)]?.lists.get(keyId);
      return last && { ...last, digest: Buffer.from(last.digest, "latin1") };
    },
    isAdoptable: (kind, name) => !rest.allCoded && find(kind, name)?.coded === false,
    adoptionWish: () => rest.wish,
    part: (index) => ({ content: parts[index] ?? emptyPart(), changes: changes[index] ?? 0 }),
    rest: () => rest,
    begin(from) {
      head = from?.head ?? { seq: 0, mac: GENESIS };
      parts = Array.from({ length: PARTS }, (_, index) => from?.parts[index] ?? emptyPart());
      rest = from?.rest ?? emptyRest();
      awaited.clear();
      for (let index = 0; index < PARTS; index += 1) changes[index] = (changes[index] ?? 0) + 1;
    },
  };
}

/** Returns whether the record creates a key. A repeated request that returns an existing key does not. */
function isCreation({ statement, outcome, detail }: AuditRow): boolean {
  return statement === "key_create" && outcome === "granted" && detail.repeated !== "true";
}

function adopted(detail: AuditRow["detail"], last: (digest: string) => Last): NamedState[] {
  const named = (kind: StateKind, list = ""): NamedState[] =>
    readNamed(list).map(([name, digest]) => ({ kind, name, last: last(textOf(digest)) }));
  return detail.step === "done" ? [...named("key", detail.keys), ...named("tenant", detail.tenants)] : [];
}

/** Formats names and SHA-256 digests of states for an adoption record. */
export function writeNamed(rows: readonly (readonly [name: string, digest: Buffer])[]): string {
  return rows.map(([name, digest]) => `${name}=${digest.toString("hex")}`).join(",");
}

function readNamed(list: string): [name: string, digest: string][] {
  return list
    .split(",")
    .filter((item) => item !== "")
    .map((item) => item.split("=") as [string, string]);
}

function textOf(hex: string): string {
  return Buffer.from(hex, "hex").toString("latin1");
}
