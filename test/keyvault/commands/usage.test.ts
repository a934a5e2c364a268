import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));

type Ended = { code: number; stdout: string; stderr: string };

const run = (args: string[]): Promise<Ended> =>
  promisify(execFile)(process.execPath, [MAIN, ...args], { env: {} }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: Ended) => ({ code, stdout, stderr }),
  );

const ID = "0".repeat(32);

test.each([
  [["strange"], "unknown command 'strange'", "keyvault"],
  [["keys", "lits"], "unknown command 'lits' (Did you mean list?)", "keyvault keys"],
  [["init", "--strange"], "unknown option '--strange'", "keyvault init"],
  [["status", "--jsn"], "unknown option '--jsn' (Did you mean --json?)", "keyvault status"],
  [["seal", "now"], "too many arguments for 'seal'. Expected 0 arguments but got 1: now.", "keyvault seal"],
  [["cert", "issue"], "required option '--role <role>' not specified", "keyvault cert issue"],
  [
    ["cert", "issue", "--role", "admin"],
    "--name is needed for a client's certificate",
    "keyvault cert issue",
  ],
  [["backup", "create"], "missing required argument 'file'", "keyvault backup create"],
  [["kek", "retire", "1"], "argument 'version'. It is kek- and a number", "keyvault kek retire"],
  [["keys", "show", "1"], "argument 'key'. A key's id has 32", "keyvault keys show"],
  [["keys", "list", "--tenant", ""], "It is 1 to 128 letters, digits and ._:@-", "keyvault keys list"],
  [["keys", "destroy", ID, "--days", "6"], "It is 7 to 30.", "keyvault keys destroy"],
  [["tenants", "destroy", "a b"], "It is 1 to 128 letters, digits and ._:@-", "keyvault tenants destroy"],
])("`keyvault %j` is refused in one line that says where its help is", async (args, reason, command) => {
  const { code, stdout, stderr } = await run(args);
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toMatch(/^keyvault: [^\n]+\n$/);
  expect(stderr).toContain(reason);
  expect(stderr).toContain(`; see "${command} --help"\n`);
});

test("help that was asked for is on standard output and no error; without a command it is on standard error", async () => {
  for (const args of [["--help"], ["help"], ["keys", "--help"], ["help", "keys"]]) {
    const { code, stdout, stderr } = await run(args);
    expect({ code, stderr }, args.join(" ")).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^Usage: keyvault/);
  }
  for (const args of [[], ["keys"], ["audit"]]) {
    const { code, stdout, stderr } = await run(args);
    expect({ code, stdout }, args.join(" ")).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^Usage: keyvault/);
  }
});

test("help loads neither the database's libraries nor the client's, which take most of a start", async () => {
  const listing = `data:text/javascript,import m from "node:module";process.on("exit",()=>console.error(Object.keys(m._cache).join("\\n")))`;
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    ["--import", listing, MAIN, "--help"],
    { env: {} },
  );
  expect(stdout).toMatch(/^Usage: keyvault/);
  const loaded = [...stderr.matchAll(/node_modules\/((?:@[^/]+\/)?[^/]+)/g)].map(([, name]) => name);
  expect(loaded).toContain("pino");
  for (const library of ["undici", "knex", "pg", "koa"]) expect(loaded).not.toContain(library);
});
