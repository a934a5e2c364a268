import { cp, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { runLogged } from "../images/buildah.ts";
import { UserError } from "../user_error.ts";

/** 1980-01-01, the first time that a zip archive can express. */
const FIRST_SECONDS = 315_532_800;

/** Returns the first group of a pattern in pyproject.toml. Throws `UserError` if no line matches. */
function found(project: string, pattern: RegExp): string {
  const text = pattern.exec(project)?.[1];
  if (text === undefined) throw new UserError(`pyproject.toml has no ${pattern.source}`, "Add the line");
  return text;
}

/**
 * Writes the wheel of the Python package to `out`. Returns the name of the wheel, and the names of the
 * packages that it needs. Equal sources lead to an equal wheel: the version of the build tool is pinned, and
 * `seconds` is the time of the files in it. Throws `UserError` if its version is not `version`.
 */
export async function packWheel(
  log: string,
  root: string,
  { work, out, version, seconds }: { work: string; out: string; version: string; seconds: number },
): Promise<{ wheel: string; needs: readonly string[] }> {
  const source = join(root, "src/sdk/python");
  const project = await readFile(join(source, "pyproject.toml"), "utf8");
  if (found(project, /^version = "(.*)"$/m) !== version) {
    throw new UserError(
      `src/sdk/python/pyproject.toml has another version than package.json, ${version}`,
      "Set the same version in both files",
    );
  }
  const folder = join(work, "wheel");
  const isKept = (path: string) => !/__pycache__|\.pyc$/.test(path);
  await cp(source, folder, { recursive: true, filter: isKept });
  await cp(join(root, "LICENSE"), join(folder, "LICENSE"));
  const pip = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-cache-dir", "--wheel-dir", out, folder];
  const time = `SOURCE_DATE_EPOCH=${Math.max(seconds, FIRST_SECONDS)}`;
  await runLogged(log, "env", [time, "python3", ...pip]);
  await rm(folder, { recursive: true });
  const dependencies: string[] = JSON.parse(found(project, /^dependencies = (\[.*\])$/m));
  const needs = dependencies.map((each) => /^[\w.-]+/.exec(each)?.[0] ?? each);
  return { wheel: `deputize-${version}-py3-none-any.whl`, needs };
}
