import type { AuditRow } from "../db/rows.ts";

/** A record that the vault would never have written after the earlier records. `seq` is its number. */
export type Contradiction = { seq: number; what: string };

/** Finds contradictions between records. Their codes must be verified, and they must arrive in order. */
export type Replay = {
  take(records: readonly AuditRow[]): void;
  /** Returns the first 100 contradictions. */
  found(): readonly Contradiction[];
};

const MOST = 100;

const USES = new Set([
  "delegation",
  "challenge",
  "revocation_list",
  "revocation_push",
  "key_rotation",
  "receipt",
  "checkpoint",
]);
const ENDED = "after its destruction was granted";
const DISABLED = "after it was disabled";

/**
 * Returns a replay that finds contradictions between records with valid codes. A vault writes such records
 * only if an altered database deceived it. The replay finds uses of a key after it was disabled or destroyed,
 * and two statements with the same sequence number. It also finds rows that an earlier version adopted,
 * without two admins, after its adoption had finished.
 */
export function createReplay(): Replay {
  const keys = new Map<string, string>();
  const tenantOf = new Map<string, string>();
  const tenants = new Set<string>();
  const places = new Map<string, { place: number; digest: string }>();
  const contradictions: Contradiction[] = [];
  let adoptionEnded = false;

  function report(seq: number, what: string): void {
    if (contradictions.length < MOST) contradictions.push({ seq, what });
  }

  function changeKey(keyId: string, statement: string, step: string | undefined): void {
    if (statement === "key_disable" && !keys.has(keyId)) keys.set(keyId, DISABLED);
    if (statement === "key_enable" && step !== "asked") keys.delete(keyId);
    if (statement === "key_destroy" && step !== "asked") keys.set(keyId, ENDED);
    if (statement === "key_erase") keys.set(keyId, ENDED);
    if (statement === "key_destroy_cancel" && keys.get(keyId) === ENDED) keys.set(keyId, DISABLED);
  }

  function changeTenant(tenant: string, statement: string, step: string | undefined): void {
    if ((statement === "tenant_destroy" && step !== "asked") || statement === "tenant_erase") {
      tenants.add(tenant);
    }
    if (statement === "tenant_destroy_cancel") tenants.delete(tenant);
  }

  function checkUse({ seq, key_id: keyId, statement }: AuditRow): void {
    if (keyId === null) return;
    const why = keys.get(keyId);
    if (why !== undefined) report(seq, `${statement} by key ${keyId} ${why}`);
    const tenant = tenantOf.get(keyId);
    if (tenant !== undefined && tenants.has(tenant)) {
      report(seq, `${statement} by key ${keyId} ${ENDED} for tenant ${tenant}`);
    }
  }

  function checkPlace({ seq, key_id, statement, digest, detail }: AuditRow): void {
    if (detail.place === undefined || digest === null) return;
    const name = `${key_id} ${statement} ${detail.stream ?? ""}`;
    const next = { place: Number(detail.place), digest: digest.toString("hex") };
    const last = places.get(name);
    if (last !== undefined && next.place < last.place) {
      report(seq, `${statement} at a place before the last one`);
    }
    if (last?.place === next.place && last.digest !== next.digest) {
      report(seq, `a second ${statement} for one place`);
    }
    places.set(name, next);
  }

  function checkAdoption({ seq, detail }: AuditRow): void {
    if (detail.step !== undefined) return;
    if (adoptionEnded && detail.rows !== "0") report(seq, "rows were taken over once more");
    adoptionEnded ||= detail.rows === "0";
  }

  function replayRecord(record: AuditRow): void {
    const { statement, key_id: keyId, detail } = record;
    if (record.outcome !== "granted") return;
    if (statement === "state_adopt") {
      checkAdoption(record);
    } else if (keyId !== null) {
      replayKey(keyId, record);
    } else if (detail.tenant !== undefined) changeTenant(detail.tenant, statement, detail.step);
  }

  function replayKey(keyId: string, record: AuditRow): void {
    const { statement, detail } = record;
    if (statement === "key_create" && detail.tenant !== undefined) tenantOf.set(keyId, detail.tenant);
    changeKey(keyId, statement, detail.step);
    if (USES.has(statement)) checkUse(record);
    checkPlace(record);
  }

  return {
    take(records) {
      for (const record of records) replayRecord(record);
    },
    found: () => contradictions,
  };
}
