import { hash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import type { Database } from "../db/database.ts";
import type { Logger } from "../log.ts";
import type { Token } from "../token/client.ts";
import type { Register } from "./last_states.ts";
import {
  PARTS,
  type RegisterPart,
  type RegisterRest,
  readPart,
  readRest,
  writePart,
  writeRest,
} from "./last_states_parts.ts";
import type { Head } from "./writer_connection.ts";

/**
 * The register's parts, cached in the database to shorten startup. The token's code of each part covers its
 * content, number and record. Altered, exchanged or missing parts only make startup slower.
 */
export type Snapshots = {
  /**
   * Loads the stored parts into the register. Returns the heads at which they were saved. Returns an empty
   * array if a part is missing, altered or in another format.
   */
  load(): Promise<Head[]>;
  /** Stores the parts in small batches, so that other work can run in between. */
  save(): Promise<void>;
};

type StoredPart = { part: number; seq: number; head: Buffer; content: Buffer; mac: Buffer };
type Taken = Omit<StoredPart, "mac"> & { digest: Buffer };

const REST = PARTS;
/** Number of parts in one batch. The token needs a few milliseconds per batch. */
const TOGETHER = 16;

/** Returns the snapshots of a register. */
export function createSnapshots(parts: {
  database: Database;
  token: Pick<Token, "authenticate">;
  register: Register;
}): Snapshots {
  const { database, token, register } = parts;
  const stored = new Map<number, { changes: number; digest: Buffer }>();

  async function isGenuine(rows: readonly StoredPart[]): Promise<boolean> {
    const texts = rows.map((row) => codedBytes({ ...row, digest: hash("sha256", row.content, "buffer") }));
    const codes = await token.authenticate(texts);
    return rows.every(({ mac }, index) => mac.equals(codes[index] ?? Buffer.alloc(0)));
  }

  /** Returns the current content of one part. Reuses the stored content if the part has not changed since. */
  function take(part: number): Taken & { changes: number } {
    const { seq, mac } = register.head();
    const { content, changes } = part === REST ? { content: undefined, changes: seq } : register.part(part);
    const known = stored.get(part);
    if (known !== undefined && known.changes === changes) {
      return { part, seq, head: mac, content: Buffer.alloc(0), digest: known.digest, changes };
    }
    const text = Buffer.from(content === undefined ? writeRest(register.rest()) : writePart(content));
    return { part, seq, head: mac, content: text, digest: hash("sha256", text, "buffer"), changes };
  }

  async function store(taken: readonly (Taken & { changes: number })[]): Promise<void> {
    const codes = await token.authenticate(taken.map(codedBytes));
    const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
    const rows = taken.map(({ part, seq, head, content }, index) => {
      return { part, seq, head: hex(head), content: hex(content), mac: hex(codes[index] ?? Buffer.alloc(0)) };
    });
    await database.raw(
      `insert into audit_register (part, seq, head, content, mac)
       select part, seq, decode(head, 'hex'), decode(content, 'hex'), decode(mac, 'hex')
       from json_to_recordset(?) as r (part smallint, seq bigint, head text, content text, mac text)
       on conflict (part) do update set seq = excluded.seq, head = excluded.head, mac = excluded.mac,
         content = case when excluded.content = '' then audit_register.content else excluded.content end`,
      [JSON.stringify(rows)],
    );
    for (const { part, changes, digest } of taken) stored.set(part, { changes, digest });
  }

  return {
    async load() {
      const rows: StoredPart[] = [];
      for (let first = 0; first <= REST; first += TOGETHER) {
        const some = await database<StoredPart>("audit_register")
          .whereBetween("part", [first, first + TOGETHER - 1])
          .orderBy("part");
        if (!(await isGenuine(some))) return [];
        rows.push(...some);
      }
      const rest = rows.find(({ part }) => part === REST);
      if (rows.length !== PARTS + 1 || rest === undefined) return [];
      const read = readContents(rows.slice(0, PARTS), rest);
      if (read === undefined) return [];
      const heads = rows.map(({ seq, head }) => ({ seq, mac: head }));
      const earliest = heads.reduce((first, head) => (head.seq < first.seq ? head : first));
      register.begin({ head: earliest, ...read });
      return heads;
    },

    async save() {
      for (let first = 0; first <= REST; first += TOGETHER) {
        const taken = [];
        for (let part = first; part <= REST && part < first + TOGETHER; part += 1) {
          taken.push(take(part));
          await nextTurn();
        }
        await store(taken);
      }
    },
  };
}

/** Returns `undefined` if a part has another format. Parts of another vault version have valid codes too. */
function readContents(
  parts: readonly StoredPart[],
  rest: StoredPart,
): { parts: RegisterPart[]; rest: RegisterRest } | undefined {
  try {
    const contents = parts.map(({ content }) => readPart(content.toString()));
    return { parts: contents, rest: readRest(rest.content.toString()) };
  } catch {
    return undefined;
  }
}

function codedBytes({ part, seq, head, digest }: Omit<Taken, "content">): Uint8Array {
  return canonicalBytes({
    type: "audit_register_part",
    version: 1,
    parts: PARTS,
    part,
    seq,
    head: Buffer.from(head).toString("hex"),
    digest: digest.toString("hex"),
  });
}

/** The running task that saves snapshots. */
export type SnapshotKeeping = { stop(): Promise<void> };

const EVERY_MS = 10_000;
/** Number of new records that trigger a snapshot while the vault runs, and a smaller number at shutdown. */
const MOST_BEHIND = 20_000;
const BEHIND_AT_STOP = 1_000;

/**
 * Saves the register whenever the chain has grown by {@link MOST_BEHIND} records since `savedAt`, and at
 * shutdown if it has grown by {@link BEHIND_AT_STOP}. After a failure, logs it and tries again later.
 */
export function keepSnapshots(
  { snapshots, register, log }: { snapshots: Snapshots; register: Pick<Register, "head">; log: Logger },
  savedAt: number,
): SnapshotKeeping {
  let last = savedAt;

  async function saveBehind(most: number): Promise<void> {
    const { seq } = register.head();
    if (seq - last < most) return;
    try {
      await snapshots.save();
      last = seq;
    } catch (error) {
      const reason = error instanceof Error ? error.message : "unknown";
      log.warn({ event: "audit_register_not_saved", reason });
    }
  }

  let running: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    running = running.then(() => saveBehind(MOST_BEHIND));
  }, EVERY_MS).unref();
  return {
    async stop() {
      clearInterval(timer);
      await running;
      await saveBehind(BEHIND_AT_STOP);
    },
  };
}
