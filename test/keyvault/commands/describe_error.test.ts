import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { describeError, statusOf } from "../../../keyvault/commands/describe_error.ts";
import { loadConfig } from "../../../keyvault/config.ts";

const failed = (fields: object, message = "secret") =>
  describeError(Object.assign(new Error(message), fields));

test("describeError names a file and the reason, or the file's folder if the folder is missing", async () => {
  const folder = await mkdtemp(join(tmpdir(), "keyvault-failure-"));
  try {
    const caught = (path: string) => readFile(path).catch(describeError);
    expect(await caught(join(folder, "none"))).toBe(`${join(folder, "none")}: there is no such file`);
    expect(await caught(join(folder, "no", "file"))).toBe(`${join(folder, "no")}: there is no such folder`);
    const written = await writeFile(folder, "").catch(describeError);
    expect(written).toBe(`${folder}: it is a folder`);
  } finally {
    await rm(folder, { recursive: true });
  }
  expect(failed({ code: "ENOSPC", path: "/backup" })).toBe("/backup: the disk is full");
  expect(failed({ code: "ESTRANGE", path: "/backup" })).toBe("/backup: ESTRANGE");
  expect(failed({ code: "ENOSPC", syscall: "write" })).toBe("A file could not be written: the disk is full");
});

test("describeError describes a failing database in one line without the query", () => {
  for (const [code, text] of [
    ["ECONNREFUSED", "nothing listens there"],
    ["53100", "its disk is full"],
    ["55000", "it does not accept connections"],
    ["57P03", "it is starting or stopping"],
    ["08006", "it cannot do its work"],
    ["58030", "it cannot do its work"],
  ]) {
    expect(failed({ code })).toBe(`The database of KEYVAULT_DATABASE_URL cannot be used: ${text} (${code})`);
  }
  expect(failed({ name: "KnexTimeoutError" })).toMatch(/it does not answer$/);
  for (const message of ["Connection terminated unexpectedly", "timeout expired"]) {
    expect(failed({}, message)).toMatch(/KEYVAULT_DATABASE_URL cannot be used: it (ended|does not)/);
  }
});

test("describeError returns undefined for a fault that needs its stack trace", () => {
  for (const fields of [{}, { code: "23505" }, { code: "42601" }, { code: "ERR_ASSERTION" }]) {
    expect(failed(fields)).toBeUndefined();
  }
});

test("loadConfig names a missing, empty or malformed setting but not its value", () => {
  const load = (environment: Record<string, string>) => () => loadConfig(environment);
  expect(load({})).toThrow(
    "These settings are missing or wrong:\n  KEYVAULT_DATA_DIR: is missing\n" +
      "  KEYVAULT_DATABASE_URL: is missing, and so is KEYVAULT_DATABASE_URL_FILE",
  );
  const whole = { KEYVAULT_DATA_DIR: "/data", KEYVAULT_DATABASE_URL: "postgres://u:hunter2@h/d" };
  expect(load({ ...whole, KEYVAULT_DATA_DIR: "" })).toThrow("KEYVAULT_DATA_DIR: is empty");
  expect(load({ ...whole, KEYVAULT_PORT: "hunter2" })).toThrow(
    /KEYVAULT_PORT: must be a whole number from 0 to 65535$/,
  );
  expect(load({ ...whole, KEYVAULT_PORT: "65536" })).toThrow(
    /KEYVAULT_PORT: must be a whole number from 0 to 65535$/,
  );
  expect(load({ ...whole, KEYVAULT_LOG_LEVEL: "loud" })).toThrow(
    /: must be debug, info, warn, error or silent$/,
  );
  expect(load({ ...whole, KEYVAULT_EXTERNAL_SUBJECTS: "yes" })).toThrow(/: must be 0 or 1$/);
  expect(load({ ...whole, KEYVAULT_SERVER_NAMES: " , " })).toThrow(/KEYVAULT_SERVER_NAMES: is empty$/);
});

test.each([
  ["28P01", "the password is wrong (28P01)"],
  ["28000", "the role may not connect (28000)"],
  ["3D000", "there is no such database (3D000)"],
  ["25006", "it accepts no changes, because it is a standby or default_transaction_read_only is on (25006)"],
  ["42501", 'the role lacks a right: run "keyvault migrate" as the role that owns the database (42501)'],
  ["53300", "it has too many connections (53300)"],
  ["ENOTFOUND", "there is no such host (ENOTFOUND)"],
  ["EAI_AGAIN", "its host name cannot be resolved (EAI_AGAIN)"],
  ["EHOSTUNREACH", "no route to host (EHOSTUNREACH)"],
  ["ENETUNREACH", "no route to host (ENETUNREACH)"],
  ["ETIMEDOUT", "it does not answer (ETIMEDOUT)"],
  ["ECONNRESET", "it ended the connection (ECONNRESET)"],
])("describeError names the setting of an unreachable database (%s)", (code, text) => {
  expect(failed({ code })).toBe(`The database of KEYVAULT_DATABASE_URL cannot be used: ${text}`);
  expect(failed({ code, setting: "KEYVAULT_MIGRATION_DATABASE_URL" })).toBe(
    `The database of KEYVAULT_MIGRATION_DATABASE_URL cannot be used: ${text}`,
  );
});

test("describeError distinguishes file permissions from a failing disk", () => {
  for (const [code, text] of [
    ["EACCES", "permission denied"],
    ["EPERM", "permission denied"],
    ["EROFS", "its file system is read-only"],
    ["EDQUOT", "the disk's quota is used up"],
    ["EIO", "the disk reports an error"],
    ["EEXIST", "it exists already"],
  ]) {
    expect(failed({ code, path: "/backup" })).toBe(`/backup: ${text}`);
  }
  for (const syscall of ["write", "fsync", "fdatasync", "ftruncate"]) {
    expect(failed({ code: "EIO", syscall })).toBe("A file could not be written: the disk reports an error");
  }
});

test.each(["28P01", "28000", "3D000", "3F000", "25006"])("statusOf reports %s as a wrong setting", (code) => {
  expect(statusOf(Object.assign(new Error("refused"), { code }))).toBe(78);
  expect(statusOf(Object.assign(new Error("away"), { code: "57P03" }))).toBe(3);
});
