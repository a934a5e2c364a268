import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { settingsHelp } from "../../../keyvault/commands/serve.ts";
import { errorCodes } from "../../../keyvault/errors.ts";
import { runCommand } from "../command_line.ts";

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));
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
  [["backup", "create"], "give a file, or --out-dir", "keyvault backup create"],
  [["kek", "retire", "1"], "argument 'version'. Give kek- and a number", "keyvault kek retire"],
  [["keys", "show", "1"], "argument 'key'. Give a key's id: 32", "keyvault keys show"],
  [["keys", "list", "--tenant", ""], "Give 1 to 128 letters, digits and ._:@-", "keyvault keys list"],
  [["keys", "destroy", ID, "--days", "6"], "Give 7 to 30 days.", "keyvault keys destroy"],
  [["keys", "destroy", ID, "--days", "1e1"], "Give 7 to 30 days.", "keyvault keys destroy"],
  [["tenants", "destroy", "acc-1", "--days", "31"], "Give 7 to 30 days.", "keyvault tenants destroy"],
  [["audit", "tail", "-n", "0"], "Give a number from 1 to 1000.", "keyvault audit tail"],
  [["audit", "tail", "-n", "1001"], "Give a number from 1 to 1000.", "keyvault audit tail"],
  [["cert", "issue", "--role", "server", "--days", "0"], "Give 1 to 3650 days.", "keyvault cert issue"],
  [["cert", "issue", "--role", "server", "--days", "3651"], "Give 1 to 3650 days.", "keyvault cert issue"],
  [["tenants", "destroy", "a b"], "Give 1 to 128 letters, digits and ._:@-", "keyvault tenants destroy"],
])("keyvault %j fails with one line that names the command's help", async (args, reason, command) => {
  const { code, stdout, stderr } = await runCommand(args, {});
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toMatch(/^keyvault: [^\n]+\n$/);
  expect(stderr).toContain(reason);
  expect(stderr).toContain(`; see "${command} --help"\n`);
});

test("help goes to standard output with code 0 on request, and to standard error with code 2 without a command", async () => {
  for (const args of [["--help"], ["help"], ["keys", "--help"], ["help", "keys"]]) {
    const { code, stdout, stderr } = await runCommand(args, {});
    expect({ code, stderr }, args.join(" ")).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^Usage: keyvault/);
  }
  for (const args of [[], ["keys"], ["audit"]]) {
    const { code, stdout, stderr } = await runCommand(args, {});
    expect({ code, stdout }, args.join(" ")).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^Usage: keyvault/);
  }
});

test("help loads neither database nor client libraries, which take most of the startup time", async () => {
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

const page = readFileSync(new URL("../../../docs/keyvault_reference.md", import.meta.url), "utf8");
const source = readFileSync(new URL("../../../keyvault/config.ts", import.meta.url), "utf8");

/** Also finds abbreviated settings, for example `KEYVAULT_HOST, _PORT` or `…_CERT_FILE`. */
function settingsIn(text: string): Set<string> {
  const found = new Set<string>();
  let before = "";
  for (const [name] of text.matchAll(/(?:KEYVAULT|…)?(?:_[A-Z0-9]+)+/g)) {
    before = name.startsWith("KEYVAULT") ? name : before;
    const words = before.split("_");
    if (name === before) {
      found.add(name);
    } else {
      for (let kept = 1; kept < words.length; kept += 1) {
        found.add([...words.slice(0, kept), name.replace(/^…?_/, "")].join("_"));
      }
    }
  }
  return found;
}

test("serve --help and the reference page explain every setting", () => {
  const settings = [...source.matchAll(/^ {2}(KEYVAULT_[A-Z0-9_]+):/gm)].map(([, name]) => name ?? "");
  expect(settings.length).toBeGreaterThan(30);
  const first = page.split("## Settings")[1] ?? "";
  const rows = first.split("\n").filter((line) => line.startsWith("| `KEYVAULT"));
  for (const text of [settingsHelp(), rows.map((row) => row.split("|")[1]).join("\n")]) {
    const explained = settingsIn(text);
    expect(settings.filter((name) => !explained.has(name))).toEqual([]);
  }
});

test("the reference page lists the status of every error code", () => {
  const rows = [...page.matchAll(/^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \| (\d{3}) \|/gm)];
  const documented = rows.flatMap(([, codes = "", status]) =>
    [...codes.matchAll(/`([a-z_]+)`/g)].map(([, code]) => [code ?? "", Number(status)] as const),
  );
  const known = Object.entries(errorCodes).map(([code, [status]]) => [code, status]);
  expect(Object.fromEntries(documented)).toEqual(Object.fromEntries(known));
});
