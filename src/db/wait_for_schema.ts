import { setTimeout as sleep } from "node:timers/promises";
import { StartError } from "../config.ts";
import type { DatabaseUrls } from "../input/database_url.ts";
import type { Logger } from "../log.ts";
import { type Database, openDatabase } from "./database.ts";
import { outageReason } from "./errors.ts";
import { readSchemaState } from "./migrate.ts";
import { checkPoolers } from "./pooler/check_poolers.ts";
import { createRefusalCheck } from "./refusals.ts";
import { assertHasSchema, strangeSchema } from "./schema_state.ts";

const EVERY_MS = 500;
/** Milliseconds after which a silent server counts as failed. They are enough, because the query is small. */
const SILENCE_MS = 5_000;
const BEHIND = "the database does not have this version's schema yet: run `deputize migrate`";

/**
 * Resolves when the database answers and has a schema that this version supports, or when `signal` is
 * aborted. Logs each reason for waiting once. Throws `StartError` if the schema is too new, if a pooler loses
 * something that the service needs, or if the database refuses this process in a way that waiting does not
 * mend.
 */
export async function waitForSchema(
  urls: DatabaseUrls,
  { log, signal }: { log: Logger; signal: AbortSignal },
): Promise<void> {
  const database = openDatabase({
    url: urls.DATABASE_URL,
    name: "deputize-schema",
    max: 1,
    silenceMs: SILENCE_MS,
    onError: () => {},
  });
  const check = createRefusalCheck();
  let said: string | undefined;
  try {
    while (!signal.aborted) {
      const reason = await reasonToWait(urls, database, check);
      if (reason === undefined) return;
      if (reason !== said) log.warn(`waiting: ${reason}`);
      said = reason;
      await sleep(EVERY_MS, undefined, { signal }).catch(() => {});
    }
  } finally {
    await database.destroy();
  }
}

async function reasonToWait(
  urls: DatabaseUrls,
  database: Database,
  check: (error: unknown) => void,
): Promise<string | undefined> {
  try {
    await checkPoolers(urls);
    await assertHasSchema(database);
    const state = await readSchemaState(database);
    if (state.kind === "strange") throw new StartError(strangeSchema(state.unknown));
    return state.kind === "usable" ? undefined : BEHIND;
  } catch (error) {
    if (error instanceof StartError) throw error;
    check(error);
    return `the database does not answer: ${outageReason(error)}`;
  }
}
