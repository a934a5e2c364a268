import { relative } from "node:path";
import { expect, inject } from "vitest";

const ROOT = new URL("../..", import.meta.url).pathname;

/**
 * What `global_setup.ts` made for the whole run: the superuser's connection string of its Postgres, or the
 * folder that its files share. Throws one sentence on how to run the test when Vitest runs without a
 * configuration of `test/`.
 */
export function runPart(name: "postgresUrl" | "runFolder"): string {
  const part: string | undefined = inject(name);
  if (part !== undefined) return part;
  const path = relative(ROOT, expect.getState().testPath ?? "");
  const kind = /\.(slow|soak|cluster)\.test\.ts$/.exec(path)?.[1];
  const script = kind === undefined ? "npm test" : `npm run test:${kind}`;
  const fault = new Error(`Vitest alone starts no database; run this test with: ${script} -- ${path}`);
  delete fault.stack;
  throw fault;
}
