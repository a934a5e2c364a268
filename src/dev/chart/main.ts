import { join } from "node:path";
import { parseArgs } from "node:util";
import { staleChartFiles, writeChartFiles } from "./chart_files.ts";

/** `npm run chart`: writes the chart's generated files. With `--check` it only lists the outdated ones. */
const ROOT = join(import.meta.dirname, "../../..");
const { values } = parseArgs({ options: { check: { type: "boolean", default: false } } });

const paths = values.check ? await staleChartFiles(ROOT) : await writeChartFiles(ROOT);
for (const path of paths) {
  process.stdout.write(values.check ? `${path} is stale: npm run chart\n` : `wrote ${path}\n`);
}
process.exitCode = values.check && paths.length > 0 ? 1 : 0;
