import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { npmPackages, pythonPackages, ran } from "../support/outside_tools.ts";
import { canonicalForm, documents } from "./python/documents.ts";

const ROOT = join(import.meta.dirname, "../..");
const PACKAGE = join(ROOT, "src/sdk/python");
const TESTS = join(import.meta.dirname, "python");
const SEED = 20_261_130;
const DOCUMENTS = 20_000;

const python = await pythonPackages("python-sdk-1", [
  "hatchling==1.33.0",
  "httpx2==2.16.2",
  "mypy==2.4.1",
  "ruff==0.17.6",
  "pytest==9.2.0",
  "fastapi==0.165.0",
  "uvicorn==0.54.0",
]);
const { folder: pyright, missing: noPyright } = await npmPackages("pyright-1", ["pyright@1.1.414"]);
const old = (await ran("python3", ["-c", "import sys; assert sys.version_info >= (3, 11)"])).code !== 0;
const missing = python.missing ?? noPyright ?? (old ? "Python 3.11 or newer" : undefined);
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

/** The folder of a fresh virtual environment that contains only the wheel. The tools are elsewhere. */
let environment: string;
let folder: string;

/** Runs Python with the wheel and the tools, but without the sources of the package. */
async function runs(...args: string[]) {
  return ran(join(environment, "bin/python"), args, { cwd: folder, env: { PYTHONPATH: `${python.folder}` } });
}

describe.skipIf(missing !== undefined)("the Python package", () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deputize-python-"));
    environment = join(folder, "environment");
    const env = { PYTHONPATH: `${python.folder}` };
    const build = ["-m", "hatchling", "build", "-t", "wheel", "-d", folder];
    expect((await ran("python3", build, { cwd: PACKAGE, env })).said).toContain(".whl");
    expect((await ran("python3", ["-m", "venv", "--without-pip", environment])).said).toBe("");
    const [wheel = ""] = (await readdir(folder)).filter((name) => name.endsWith(".whl"));
    const pip = ["-m", "pip", "--python", environment, "install", "--quiet", "--no-index", "--no-deps"];
    const installed = await ran("python3", [...pip, join(folder, wheel)]);
    expect(installed.code, installed.said).toBe(0);
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  test("contains its types, and needs only the HTTP client", async () => {
    const program = `import importlib.metadata as m, json; d = m.distribution("deputize")
print(json.dumps([d.requires, d.version, sorted(map(str, d.files))]))`;
    const [requires, version, files] = JSON.parse((await runs("-c", program)).printed);
    expect(requires).toEqual([expect.stringMatching(/^httpx2[<>=]/)]);
    expect(version).toBe(JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")).version);
    expect(files).toEqual(expect.arrayContaining(["deputize/py.typed", "deputize/webhook.py"]));
    const others = files.filter((path: string) => !/^deputize(-[\d.]+\.dist-info)?\//.test(path));
    expect(others).toEqual([]);
  });

  test("passes its own tests", async () => {
    const { code, said } = await runs("-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS);
    expect(code, said).toBe(0);
  });

  test("has types and a style without faults", async () => {
    const config = join(PACKAGE, "pyproject.toml");
    const paths = [join(PACKAGE, "deputize"), TESTS];
    const ruff = (...args: string[]) =>
      runs("-m", "ruff", ...args, "--no-cache", "--config", config, ...paths);
    const mypy = ["-m", "mypy", "--config-file", config, "--cache-dir", join(folder, "mypy"), ...paths];
    for (const { code, said } of [
      await ruff("check"),
      await ruff("format", "--check"),
      await runs(...mypy),
    ]) {
      expect(code, said).toBe(0);
    }
    await symlink(join(PACKAGE, "deputize"), join(folder, "deputize"));
    await symlink(TESTS, join(folder, "tests"));
    const settings = { include: ["deputize", "tests"], extraPaths: [python.folder], pythonVersion: "3.11" };
    await writeFile(join(folder, "pyrightconfig.json"), JSON.stringify(settings));
    const program = join(`${pyright}`, "node_modules/pyright/index.js");
    const { code, said } = await ran(process.execPath, [program, "-p", folder]);
    expect(code, said).toBe(0);
  });

  test(`agrees with TypeScript on ${DOCUMENTS} documents with the seed ${SEED}`, async () => {
    const samples = fc.sample(documents, { seed: SEED, numRuns: DOCUMENTS });
    const input = join(folder, "documents");
    await writeFile(input, samples.map((document) => `${JSON.stringify(document)}\n`).join(""));
    const { printed, said } = await runs(join(TESTS, "canonical_forms.py"), input);
    const forms = printed.split("\n").slice(0, -1);
    expect(forms, said).toHaveLength(DOCUMENTS);
    const differences = samples.flatMap((document, index) => {
      const [here, there] = [canonicalForm(document), JSON.parse(forms[index] ?? "") as string | null];
      return here === there ? [] : [{ document, here, there }];
    });
    expect(differences).toEqual([]);
    const refused = forms.filter((form) => form === "null").length;
    expect(refused).toBeGreaterThan(DOCUMENTS / 10);
    expect(refused).toBeLessThan(DOCUMENTS / 2);
  });
});
