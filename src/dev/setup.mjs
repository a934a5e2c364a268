// This file must parse in any version of Node. The other files may need a newer Node than the machine has.
const OLDEST = 20;

if (Number.parseInt(process.versions.node, 10) < OLDEST) {
  console.error(`Node ${OLDEST} or newer is needed to begin; this is Node ${process.versions.node}.`);
  console.error("Install one from https://nodejs.org and run the same command again.");
  process.exit(1);
}

void import("./setup/main.mjs").then(({ main }) => main(process.argv.slice(2)));
