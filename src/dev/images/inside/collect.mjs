// Run in a build of the images: `collect.mjs <folder> <file>...` makes a root folder with the programs and libraries
// named, the libraries that they load, and what says which of Debian's packages these are from. A scanner reads that as
// it reads Debian's own list; the packages' licences are beside it.
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";

const USER = 10001;
const [root = "", ...files] = process.argv.slice(2);

const run = (command, ...args) => execFileSync(command, args, { encoding: "utf8", stdio: "pipe" });

/** Where a file is when /bin, /lib and the like lead into /usr; libraries keep the name that they are loaded by. */
const placeOf = (path) => join(realpathSync(dirname(path)), basename(path));

/** The libraries that a program or library loads, as the loader finds them. */
function librariesOf(path) {
  const lines = run("ldd", path).split("\n");
  const missing = lines.filter((line) => line.includes("not found"));
  if (missing.length > 0)
    throw new Error(`${path} loads what the base image does not have:\n${missing.join("\n")}`);
  return lines
    .map((line) => /(?:=> |^\s+)(\/\S+) \(0x/.exec(line)?.[1])
    .filter((found) => found !== undefined);
}

/** Debian's package that a file is from; undefined for what came another way, such as Node. */
function packageOf(path) {
  const real = realpathSync(path);
  for (const name of [real, real.replace(/^\/usr/, ""), path]) {
    try {
      return run("dpkg-query", "--search", name).split(": ")[0]?.split(":")[0];
    } catch {
      // Debian lists some files where they were before /lib led into /usr.
    }
  }
  return undefined;
}

function copy(path, mode, to = placeOf(path)) {
  mkdirSync(join(root, dirname(to)), { recursive: true });
  copyFileSync(realpathSync(path), join(root, to));
  chmodSync(join(root, to), mode);
}

/** Says that a package's files are here, as Debian says it of its own. */
function notePackage(name) {
  mkdirSync(join(root, "var/lib/dpkg/status.d"), { recursive: true });
  writeFileSync(join(root, "var/lib/dpkg/status.d", name), run("dpkg-query", "--status", name));
  const licence = `/usr/share/doc/${name}/copyright`;
  if (existsSync(licence)) copy(licence, 0o644);
}

for (const folder of ["bin", "lib", "lib64", "sbin"]) {
  mkdirSync(join(root, "usr", folder), { recursive: true });
  symlinkSync(`usr/${folder}`, join(root, folder));
}
const all = new Set(files.flatMap((file) => [file, ...librariesOf(file)]));
for (const file of all) if (!file.startsWith("/app/")) copy(file, 0o755);
for (const name of new Set([...all].map(packageOf))) if (name !== undefined) notePackage(name);

mkdirSync(join(root, "etc"), { recursive: true });
const line = `deputize:x:${USER}:`;
writeFileSync(join(root, "etc/passwd"), `root:x:0:0::/:/nonexistent\n${line}${USER}::/app:/nonexistent\n`);
writeFileSync(join(root, "etc/group"), `root:x:0:\n${line}\n`);
writeFileSync(join(root, "etc/nsswitch.conf"), "passwd: files\ngroup: files\nhosts: files dns\n");
copy("/etc/os-release", 0o644, "/etc/os-release");
mkdirSync(join(root, "tmp"));
chmodSync(join(root, "tmp"), 0o1777);
// What is mounted when the image runs, so that nothing has to be made in it then.
for (const folder of ["app", "dev", "proc", "run", "sys"]) mkdirSync(join(root, folder));
