import { createHash, randomUUID } from "node:crypto";

/** The id of one logical call, and a signal that ends when the client cancels the call. */
export type Invocation = { readonly id: string; readonly signal: AbortSignal };

/** A call to send. `named` is the id that the caller gave to its call. */
export type StartedCall = {
  action: string;
  params: Readonly<Record<string, unknown>>;
  named: string | undefined;
};

/** Finds the id of each call that one transport sends. */
export type Invocations = {
  begin(requestId: unknown, call: StartedCall): Invocation;
  /** Notes that a request has its result, or that nobody knows what became of it. */
  end(requestId: unknown, fate: "answered" | "lost"): void;
  /** Notes that no request without an answer will get one. */
  loseAll(): void;
};

type Tracked = Invocation & { hash: string; fate: "sent" | "answered" | "lost"; cancel(): void };

/** Leaves room for the suffix of a round, and contains none, so that no two calls share an id. */
const CALL_ID = /^[\x21-\x7d]{1,200}$/;

/** The newest call with the same object of arguments. Another connection can send a lost call again. */
const newest = new WeakMap<object, Tracked>();

/**
 * Creates the ids of one transport's calls. Two calls share an id only if the first one was lost, and both
 * have the same object of arguments with the same content: then the SDK has sent one call twice. A named call
 * keeps its name, and each of its further rounds has a suffix that follows from its input.
 */
export function createInvocations(): Invocations {
  const open = new Map<unknown, Tracked>();
  return {
    begin(requestId, { action, params, named }) {
      const { arguments: given, inputResponses, requestState } = params;
      const hash = sha256(JSON.stringify([action, given, inputResponses, requestState]));
      const key = typeof given === "object" && given !== null ? given : params;
      const before = newest.get(key);
      const isRepeated = before?.fate === "lost" && before.hash === hash;
      const isRound = inputResponses !== undefined || requestState !== undefined;
      const controller = new AbortController();
      const tracked: Tracked = {
        id: named === undefined ? (isRepeated ? before.id : randomUUID()) : nameOf(named, isRound && hash),
        signal: controller.signal,
        hash,
        fate: "sent",
        cancel: () => controller.abort(),
      };
      newest.set(key, tracked);
      open.set(requestId, tracked);
      return tracked;
    },
    end(requestId, fate) {
      const tracked = open.get(requestId);
      open.delete(requestId);
      if (tracked === undefined) return;
      tracked.fate = fate;
      if (fate === "lost") tracked.cancel();
    },
    loseAll() {
      for (const requestId of open.keys()) this.end(requestId, "lost");
    },
  };
}

function nameOf(named: string, round: string | false): string {
  if (!CALL_ID.test(named)) {
    throw new TypeError("invocation_id: must have 1 to 200 visible ASCII characters without ~");
  }
  return round === false ? named : `${named}~${round.slice(0, 32)}`;
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
