import { relative } from "node:path";
import { expect, inject } from "vitest";

const ROOT = new URL("../..", import.meta.url).pathname;

/**
 * Returns a value that `global_setup.ts` provides. Without a configuration of `test/`, throws one sentence
 * that says how to run the test.
 */
export function runPart(name: "postgresUrl" | "databaseTemplate" | "poolerUrl" | "runFolder"): string {
  const part: string | undefined = inject(name);
  if (part !== undefined) return part;
  const path = relative(ROOT, expect.getState().testPath ?? "");
  const kind = /\.(slow|soak|cluster)\.test\.ts$/.exec(path)?.[1];
  const script = kind === undefined ? "npm test" : `npm run test:${kind}`;
  const fault = new Error(`Vitest alone starts no database; run this test with: ${script} -- ${path}`);
  delete fault.stack;
  throw fault;
}
