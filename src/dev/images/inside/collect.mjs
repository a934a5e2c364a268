// Runs during an image build. `collect.mjs <folder> <file>...` creates a root folder with the files, all
// libraries that they load, and their licenses. It also records the files' Debian packages for vulnerability
// scanners.
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

/** Resolves folder links such as /bin and /lib, but no link in a library's own file name. */
const placeOf = (path) => join(realpathSync(dirname(path)), basename(path));

function librariesOf(path) {
  const lines = run("ldd", path).split("\n");
  const missing = lines.filter((line) => line.includes("not found"));
  if (missing.length > 0)
    throw new Error(`${path} loads libraries that the base image does not have:\n${missing.join("\n")}`);
  return lines
    .map((line) => /(?:=> |^\s+)(\/\S+) \(0x/.exec(line)?.[1])
    .filter((found) => found !== undefined);
}

/** Returns a file's Debian package, or undefined for a file of no package, such as Node. */
function packageOf(path) {
  const real = realpathSync(path);
  for (const name of [real, real.replace(/^\/usr/, ""), path]) {
    try {
      return run("dpkg-query", "--search", name).split(": ")[0]?.split(":")[0];
    } catch {
      // For some files Debian still lists the path from before /lib became a link into /usr.
    }
  }
  return undefined;
}

function copy(path, mode, to = placeOf(path)) {
  mkdirSync(join(root, dirname(to)), { recursive: true });
  copyFileSync(realpathSync(path), join(root, to));
  chmodSync(join(root, to), mode);
}

function notePackage(name) {
  mkdirSync(join(root, "var/lib/dpkg/status.d"), { recursive: true });
  writeFileSync(join(root, "var/lib/dpkg/status.d", name), run("dpkg-query", "--status", name));
  const license = `/usr/share/doc/${name}/copyright`;
  if (existsSync(license)) copy(license, 0o644);
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
// Creates the mount points in advance, since the root of a running image is read-only.
for (const folder of ["app", "dev", "proc", "run", "sys"]) mkdirSync(join(root, folder));
