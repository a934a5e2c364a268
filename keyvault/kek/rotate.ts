import type { Change, Journal } from "../audit/journal.ts";
import type { Caller } from "../audit/record.ts";
import { VaultError } from "../errors.ts";
import type { Token } from "../token/client.ts";

/**
 * Makes the next version of the key-encryption key in the token. From then on it wraps; older versions only
 * open what they wrapped.
 */
export type RotateKek = (caller: Caller) => Promise<Rotated>;

type Rotated = { kek: string; keks: string[] };

/**
 * Rotation on these parts. It takes its turn in the journal, and `flush` puts the token's new key on the
 * disk: a data key under it can be stored only after that.
 */
export function createKekRotation(parts: {
  journal: Journal;
  token: Pick<Token, "rotate">;
  flush(): Promise<void>;
}): RotateKek {
  return async (caller) => {
    const about = { caller, statement: "kek_rotate" } as const;
    const result = await parts.journal.change(async (): Promise<Change<Rotated | VaultError>> => {
      try {
        const { keks } = await parts.token.rotate();
        await parts.flush();
        const kek = keks.at(-1) ?? "";
        return { value: { kek, keks }, entry: { ...about, outcome: "granted", detail: { kek } } };
      } catch (error) {
        const fault =
          error instanceof VaultError ? error : new VaultError("internal", undefined, { cause: error });
        return { value: fault, entry: { ...about, outcome: "failed" } };
      }
    });
    if (result instanceof VaultError) throw result;
    return result;
  };
}
