import { setTimeout as sleep } from "node:timers/promises";
import { StartError } from "../config.ts";
import type { Logger } from "../log.ts";
import { openDatabase } from "./database.ts";
import { outageReason } from "./errors.ts";
import { readSchemaState } from "./migrate.ts";
import { strangeSchema } from "./schema_state.ts";

const EVERY_MS = 500;
/** Milliseconds after which a silent server counts as failed. They are enough, because the query is small. */
const SILENCE_MS = 5_000;
const BEHIND = "the database does not have this version's schema yet: run `deputize migrate`";

/**
 * Resolves when the database answers and has a schema that this version supports, or when `signal` is
 * aborted. Logs each reason for waiting once. Throws `StartError` if the schema is too new.
 */
export async function waitForSchema(
  url: string,
  { log, signal }: { log: Logger; signal: AbortSignal },
): Promise<void> {
  const database = openDatabase({
    url,
    name: "deputize-schema",
    max: 1,
    silenceMs: SILENCE_MS,
    onError: () => {},
  });
  let said: string | undefined;
  try {
    while (!signal.aborted) {
      const reason = await readSchemaState(database).then(
        (state) => {
          if (state.kind === "strange") throw new StartError(strangeSchema(state.unknown));
          return state.kind === "usable" ? undefined : BEHIND;
        },
        (error: unknown) => `the database does not answer: ${outageReason(error)}`,
      );
      if (reason === undefined) return;
      if (reason !== said) log.warn(`waiting: ${reason}`);
      said = reason;
      await sleep(EVERY_MS, undefined, { signal }).catch(() => {});
    }
  } finally {
    await database.destroy();
  }
}
