import { applyMask, chunksOf, createMask } from "./frames.ts";
import type { NotedHead, TokenAnswers, TokenRequest, Wrapped } from "./messages.ts";

/** Sends a request to the token's process. */
export type TokenCall = <K extends TokenRequest["kind"]>(
  message: Extract<TokenRequest, { kind: K }>,
) => Promise<TokenAnswers[K]>;

/** Calls of an open token: they wrap keys, compute codes, and note the audit's head. */
export type TokenCalls = {
  /** Encrypts up to 4 KiB under the newest key-encryption key, bound to `context`. */
  wrap(plain: Uint8Array, context: Uint8Array): Promise<Wrapped>;
  /**
   * Decrypts a text that was wrapped under the same context. Rejects with `DamagedBox` if the text was
   * altered, belongs to another context, or names a version that the token lacks.
   */
  unwrap(wrapped: Wrapped, context: Uint8Array): Promise<Uint8Array>;
  /**
   * Returns codes under the audit key: `mac[i]` = HMAC-SHA256(`mac[i−1]` ‖ `texts[i]`). `mac[−1]` is
   * `previous`.
   */
  chain(previous: Uint8Array, texts: Uint8Array[]): Promise<Uint8Array[]>;
  /** Returns HMAC-SHA256 of each text under the audit key. These codes never equal those of the chain. */
  authenticate(texts: Uint8Array[]): Promise<Uint8Array[]>;
  /**
   * Wraps the boxes again under the newest key-encryption key. Returns null for a damaged box. The plaintext
   * never leaves the child.
   */
  rewrap(boxes: { wrapped: Wrapped; context: Uint8Array }[]): Promise<(Wrapped | null)[]>;
  /**
   * Returns for each box the version of the key-encryption key that opens it, whatever version the box names.
   * Null means that no version opens the box. The plaintext never leaves the child.
   */
  findVersions(boxes: { wrapped: Wrapped; context: Uint8Array }[]): Promise<(string | null)[]>;
  /** Returns the head of the audit chain with the highest number that the token has noted, or null. */
  notedHead(): Promise<{ head: NotedHead | null }>;
  /** Notes a head, unless a head with a higher number is noted. With `replaceAll`, replaces every head. */
  noteHead(head: NotedHead, replaceAll?: boolean): Promise<unknown>;
};

/** Returns the token's calls. */
export function createTokenCalls(call: TokenCall): TokenCalls {
  return {
    wrap: (plain, context) => call({ kind: "wrap", plain, context }),
    async unwrap(wrapped, context) {
      const mask = createMask(wrapped);
      try {
        return applyMask(await call({ kind: "unwrap", wrapped, context, mask }), mask);
      } finally {
        mask.fill(0);
      }
    },
    async chain(previous, texts) {
      const codes: Uint8Array[] = [];
      for (const part of chunksOf(texts)) {
        codes.push(...(await call({ kind: "chain", previous: codes.at(-1) ?? previous, texts: part })));
      }
      return codes;
    },
    async authenticate(texts) {
      const parts = chunksOf(texts).map((part) => call({ kind: "authenticate", texts: part }));
      return (await Promise.all(parts)).flat();
    },
    rewrap: (boxes) => call({ kind: "rewrap", boxes }),
    findVersions: (boxes) => call({ kind: "find_versions", boxes }),
    notedHead: () => call({ kind: "noted_head" }),
    noteHead: ({ seq, mac }, replaceAll = false) =>
      call({ kind: "note_head", head: { seq, mac }, replaceAll }),
  };
}
