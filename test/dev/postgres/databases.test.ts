import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterEach, beforeEach, expect, test } from "vitest";
import { databaseUrl, type OwnDatabase, prepareDatabases } from "../../../src/dev/postgres/postgres.ts";
import { runPart } from "../../support/run_parts.ts";

const superuserUrl = runPart("postgresUrl");
const port = Number(new URL(superuserUrl).port);
let own: [OwnDatabase, OwnDatabase];

beforeEach(() => {
  const database = (name: string) => ({
    name: `${name}_${randomBytes(6).toString("hex")}`,
    password: randomBytes(16).toString("hex"),
  });
  own = [database("one"), database("other")];
});

afterEach(async () => {
  for (const { name } of own) {
    await ask(superuserUrl, `drop database if exists ${name} with (force)`);
    await ask(superuserUrl, `drop role if exists ${name}`);
  }
});

async function ask(url: string, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query({ text: sql, rowMode: "array" })).rows;
  } finally {
    await client.end();
  }
}

/** Returns the SQLSTATE of the error with which the server rejects a connection. */
const refused = (url: string) => ask(url, "select 1").catch((error: { code?: string }) => error.code);

test("each role owns its database and can create tables in it", async () => {
  await prepareDatabases(superuserUrl, own);
  for (const database of own) {
    const url = databaseUrl(database, port);
    await ask(url, "create table kept as select 42 as n");
    expect(await ask(url, "select current_user, n from kept")).toEqual([[database.name, 42]]);
  }
});

test("no role can connect to a different role's database, or to its own database without the password", async () => {
  await prepareDatabases(superuserUrl, own);
  const [one, other] = own;
  const insufficientPrivilege = "42501";
  const invalidPassword = "28P01";
  expect(await refused(databaseUrl(one, port).replace(/[^/]+$/, other.name))).toBe(insufficientPrivilege);
  expect(await refused(databaseUrl(other, port).replace(/[^/]+$/, one.name))).toBe(insufficientPrivilege);
  expect(await refused(databaseUrl({ ...one, password: other.password }, port))).toBe(invalidPassword);
});

test("no role has special rights", async () => {
  await prepareDatabases(superuserUrl, own);
  const flags =
    "select rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls from pg_roles where rolname = ";
  for (const { name } of own) {
    expect(await ask(superuserUrl, `${flags}'${name}'`)).toEqual([[false, false, false, false, false]]);
  }
});

test("a second prepareDatabases keeps the data and sets the new password", async () => {
  await prepareDatabases(superuserUrl, own);
  const [one, other] = own;
  await ask(databaseUrl(one, port), "create table kept as select 42 as n");
  const renewed = { ...one, password: randomBytes(16).toString("hex") };
  await prepareDatabases(superuserUrl, [renewed, other]);
  expect(await ask(databaseUrl(renewed, port), "select n from kept")).toEqual([[42]]);
  expect(await refused(databaseUrl(one, port))).toBe("28P01");
});

test("prepareDatabases completes an earlier run that was interrupted between role and database", async () => {
  const [one] = own;
  await ask(superuserUrl, `create role ${one.name}`);
  await prepareDatabases(superuserUrl, own);
  expect(await ask(databaseUrl(one, port), "select 1")).toEqual([[1]]);
});

test("a guest can connect only to its database, and can neither read nor create tables there", async () => {
  const [one, other] = own;
  const guest = { name: `guest_${one.name}`, password: randomBytes(16).toString("hex") };
  try {
    await prepareDatabases(superuserUrl, [{ ...one, guest }, other]);
    await prepareDatabases(superuserUrl, [{ ...one, guest }, other]);
    const url = databaseUrl(guest, port, one.name);
    expect(await ask(url, "select current_user")).toEqual([[guest.name]]);
    await ask(databaseUrl(one, port), "create table kept as select 42 as n");
    await expect(ask(url, "select n from kept")).rejects.toMatchObject({ code: "42501" });
    await expect(ask(url, "create table mine ()")).rejects.toMatchObject({ code: "42501" });
    expect(await refused(databaseUrl(guest, port, other.name))).toBe("42501");
  } finally {
    await ask(superuserUrl, `drop database if exists ${one.name} with (force)`);
    await ask(superuserUrl, `drop role if exists ${guest.name}`);
  }
});
