import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";

const script = `
import { createLog } from "./src/log.ts";
const log = createLog("info", "test");
const error = Object.assign(new Error('insert into t - duplicate key "planted-value"'), {
  severity: "ERROR", code: "23505", detail: "Key (email)=(planted-value) already exists.", constraint: "t_key",
});
log.warn({ err: error }, "not stored");
log.info({ api_key: "planted-value", nested: { signing_secret: "planted-value" } }, "made");
`;

test("a log line contains a database error's SQLSTATE, but neither the error's values nor fields with a secret", () => {
  const lines = execFileSync(process.execPath, ["--input-type=module", "--eval", script], {
    encoding: "utf8",
  });
  expect(lines).not.toContain("planted-value");
  expect(JSON.parse(lines.split("\n")[0] ?? "")).toMatchObject({ err: { code: "23505" } });
  expect(lines).toContain("t_key");
  expect(lines.trim().split("\n")).toHaveLength(2);
});
