import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { cp, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { mavenJars } from "../../../src/dev/kafka/jars.ts";
import { openApiNode, pythonPackages, ran } from "../../support/outside_tools.ts";
import { TYPESCRIPT_SHOP } from "./typescript.ts";

/** The command that runs the shop, or what is missing to generate and compile its client. */
export type Shop = { command: string[]; env?: Record<string, string> } | { missing: string };

/** Generates a client from an OpenAPI document in the given empty folder, and compiles the shop with it. */
type Build = (document: string, folder: string) => Promise<Shop>;

/** The ways to build the shop, by language. */
export const languages: Readonly<Record<string, Build>> = { Go: go, Python: python, TypeScript: typeScript };

const GENERATOR = {
  version: "7.25.0",
  sha256: "41ce4f6b07f196676439d710759fa1ced7a08066d06ff1bf314681470289efae",
};
const REPOSITORY = join(import.meta.dirname, "../../..");

async function go(document: string, folder: string): Promise<Shop> {
  const name = `openapi-generator-cli-${GENERATOR.version}`;
  const artifact = `org.openapitools:openapi-generator-cli:${GENERATOR.version}`;
  const { jars, missing } = await mavenJars(name, [artifact]);
  if (missing !== undefined) return { missing };
  if ((await ran("go", ["version"])).code !== 0) return { missing: "Go 1.23 or newer, to compile it" };
  const jar = join(jars, `${name}.jar`);
  await checkHash(jar, GENERATOR.sha256);
  await cp(join(import.meta.dirname, "go"), folder, { recursive: true });
  const env = { CGO_ENABLED: "0", GOTOOLCHAIN: "local", GOFLAGS: "-mod=readonly" };
  const module = "gopkg.in/validator.v2";
  const download = await ran("go", ["mod", "download", module], { cwd: folder, env });
  if (download.code !== 0) return { missing: `${module}: ${download.said}` };
  const options = ["--additional-properties=packageName=client,withGoMod=false", "--global-property"];
  const parts = "apiDocs=false,modelDocs=false,apiTests=false,modelTests=false";
  // The JVM ends before its optimizing compiler would be worth its time.
  const java = ["-XX:TieredStopAtLevel=1", "-jar", jar, "generate", "-g", "go", "-i", document];
  await must("java", [...java, "-o", join(folder, "client"), ...options, parts]);
  const program = join(folder, "shop");
  await must("go", ["build", "-trimpath", "-buildvcs=false", "-o", program, "."], { cwd: folder, env });
  return { command: [program] };
}

async function python(document: string, folder: string): Promise<Shop> {
  const { folder: packages, missing } = await pythonPackages("openapi-python-client-1", [
    "openapi-python-client==0.29.1",
    "mypy==2.4.1",
  ]);
  if (missing !== undefined) return { missing };
  const env = { PYTHONPATH: `${packages}:${folder}` };
  const program = join(folder, "shop.py");
  await cp(join(import.meta.dirname, "python/shop.py"), program);
  const config = join(folder, "config.yml");
  await writeFile(config, "post_hooks: []\n");
  const output = ["--meta", "none", "--output-path", join(folder, "client"), "--config", config];
  const generate = ["-m", "openapi_python_client", "generate", "--path", document, ...output];
  await must("python3", [...generate, "--fail-on-warning"], { env });
  // The generated model of `Error` does not pass mypy. So mypy checks only how the shop uses the client.
  const check = ["-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir=/dev/null", program];
  await must("python3", check, { env: { ...env, MYPYPATH: folder } });
  return { command: ["python3", program], env };
}

async function typeScript(document: string, folder: string): Promise<Shop> {
  const { folder: packages, missing } = await openApiNode();
  if (missing !== undefined) return { missing };
  await symlink(join(packages, "node_modules"), join(folder, "node_modules"));
  await must(join(packages, "node_modules/.bin/openapi-typescript"), [
    document,
    "-o",
    join(folder, "api.ts"),
  ]);
  const program = join(folder, "shop.ts");
  await writeFile(program, TYPESCRIPT_SHOP);
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  const compilerOptions = {
    strict: true,
    noUncheckedIndexedAccess: true,
    noEmit: true,
    target: "esnext",
    module: "nodenext",
    typeRoots: [join(REPOSITORY, "node_modules/@types")],
    types: ["node"],
    allowImportingTsExtensions: true,
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["shop.ts"] }));
  await must(join(REPOSITORY, "node_modules/.bin/tsc"), ["-p", folder]);
  return { command: [process.execPath, program] };
}

async function must(...call: Parameters<typeof ran>): Promise<void> {
  const { code, said } = await ran(...call);
  if (code !== 0) throw new Error(`${call[0]} exited with ${code}:\n${said.slice(-4000)}`);
}

async function checkHash(file: string, expected: string): Promise<void> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  const found = hash.digest("hex");
  if (found !== expected) throw new Error(`${file} has the SHA-256 ${found} instead of ${expected}`);
}
