import { fileURLToPath } from "node:url";
import { BaseSequencer, startVitest, type TestSpecification } from "vitest/node";
import { readSettings } from "./settings.ts";

/** `npm run contract`: exits with 1 if a check fails, and with 2 for wrong arguments. */
const settings = readSettings(process.argv.slice(2));
if (settings === undefined) {
  process.exit(2);
}
class InOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return files.sort((one, other) => (one.moduleId < other.moduleId ? -1 : 1));
  }
}

const root = fileURLToPath(new URL("../..", import.meta.url));
const vitest = await startVitest("test", [], {
  root,
  config: false,
  watch: false,
  include: ["test/specification/*.check.ts"],
  globalSetup: ["test/specification/people.ts"],
  provide: { settings },
  pool: "forks",
  maxWorkers: 1,
  fileParallelism: false,
  sequence: { sequencer: InOrder },
  testTimeout: 60_000,
  hookTimeout: 60_000,
  reporters: ["tree"],
});
await vitest.close();
