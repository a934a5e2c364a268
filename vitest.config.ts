/**
 * Vitest loads this file when it runs without one of the configurations in `test/`. The tests would then have
 * no database, so it names the command that starts one.
 */
const filters = process.argv.slice(2).filter((argument) => argument.startsWith("test/"));
const kind = /\.(slow|soak|cluster)\.test\.ts$/.exec(filters[0] ?? "")?.[1];
const script = kind === undefined ? "npm test" : `npm run test:${kind}`;
process.stderr.write(
  `Vitest alone starts no database; run the tests with: ${[script, "--", ...filters].join(" ")}\n`,
);
process.exit(1);
