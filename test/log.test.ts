import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";

const script = `
import { createLog } from "./src/log.ts";
const log = createLog("info", "test");
const error = Object.assign(new Error('insert into t - duplicate key "planted-value"'), {
  severity: "ERROR", code: "23505", detail: "Key (email)=(planted-value) already exists.", constraint: "t_key",
});
log.warn({ err: error }, "not stored");
for (const message of [
  'select "a" from "t" where "a" = $1 - invalid input syntax for type json: "planted-value - x"',
  'invalid input syntax for type json: "planted-value - x"',
]) log.warn({ err: Object.assign(new Error(message), { severity: "ERROR", code: "22P02" }) }, "not read");
try { JSON.parse('planted-value'); } catch (err) { log.warn({ err }, "not parsed"); }
log.info({ api_key: "planted-value", nested: { signing_secret: "planted-value" } }, "made");
`;

test("a log line contains a database error's SQLSTATE, but neither the values of errors nor fields with a secret", () => {
  const lines = execFileSync(process.execPath, ["--input-type=module", "--eval", script], {
    encoding: "utf8",
  });
  expect(lines).not.toContain("planted-value");
  expect(JSON.parse(lines.split("\n")[0] ?? "")).toMatchObject({ err: { code: "23505" } });
  expect(lines).toContain("t_key");
  expect(lines).toContain('select \\"a\\" from \\"t\\" where \\"a\\" = $1 - SQLSTATE 22P02');
  expect(lines.trim().split("\n")).toHaveLength(5);
});
