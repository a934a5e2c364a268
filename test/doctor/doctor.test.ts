import { describe, expect, test } from "vitest";
import { check, failed, NotChecked, ok, runChecks } from "../../src/doctor/check.ts";
import { chooseRoles } from "../../src/doctor/settings.ts";
import { tableLines } from "../../src/doctor/table.ts";
import { doctor } from "./support.ts";

const SECRET = "s3cret-in-a-url";
/** A closed port on loopback. */
const NOBODY = "127.0.0.1:1";
const WORKER = {
  DATABASE_URL: `postgres://deputize:${SECRET}@${NOBODY}/deputize`,
  SEALING_KEY: `${"A".repeat(43)}=`,
  DEVELOPMENT: "true",
};
const VAULT = {
  VAULT_URL: `https://${NOBODY}`,
  VAULT_CA_FILE: "no",
  VAULT_CERT_FILE: "no",
  VAULT_KEY_FILE: "no",
};
const API = {
  ...WORKER,
  ...VAULT,
  BASE_URL: `http://${NOBODY}`,
  SMTP_URL: `smtp://deputize:${SECRET}@${NOBODY}`,
};
const now = () => new Date("2026-11-28T12:00:00Z");

describe("runChecks", () => {
  const none = { values: {}, wrong: new Set<string>() };

  test("fails a check that never ends, and does not delay the others", async () => {
    const rows = await runChecks(
      [check("hangs", [], () => new Promise(() => {})), check("good", [], async () => ok("fine"))],
      none,
      { now, checkMs: 20 },
    );
    expect(rows.map(({ name, status }) => [name, status])).toEqual([
      ["hangs", "failed"],
      ["good", "ok"],
    ]);
    expect(rows[0]?.detail).toBe("no result after 0.02 s");
  });

  test("aborts the signal of a check whose time is over", async () => {
    let seen: AbortSignal | undefined;
    const hanging = check("hangs", [], (_, { signal }) => {
      seen = signal;
      return new Promise(() => {});
    });
    await runChecks([hanging], none, { now, checkMs: 5 });
    expect(seen?.aborted).toBe(true);
  });

  test("never shows the message of an unexpected error", async () => {
    const thrown = Object.assign(new Error(SECRET), { code: "EODD" });
    const [row] = await runChecks([check("odd", [], () => Promise.reject(thrown))], none, { now });
    expect(row).toMatchObject({ status: "failed", detail: "the check ended with EODD" });
  });

  test("skips a check whose precondition another check reports", async () => {
    const [row] = await runChecks(
      [check("next", [], () => Promise.reject(new NotChecked("no server")))],
      none,
      { now },
    );
    expect(row).toEqual({ name: "next", status: "skipped", detail: "no server", action: null });
  });

  test("skips a check without its settings, and says which are missing or wrong", async () => {
    const needy = check("mail", ["SMTP_URL", "BASE_URL"], async () => ok(""));
    const [row] = await runChecks([needy], { values: {}, wrong: new Set(["SMTP_URL"]) }, { now });
    expect(row).toMatchObject({ status: "skipped", detail: "SMTP_URL is wrong, BASE_URL is not set" });
  });
});

describe("chooseRoles", () => {
  test.each([
    ["api", API],
    ["worker", WORKER],
    ["worker", { ...WORKER, EVENTS: "embedded" }],
    ["migrate", { DATABASE_URL_FILE: "/run/url" }],
    ["operator", { API_URL: "http://api" }],
  ])("finds the role %s by its settings", (role, environment) => {
    expect(chooseRoles([], environment)).toEqual([role]);
  });

  test("returns all roles whose settings are set, or those that are named", () => {
    const all = { ...API, API_URL: "http://api", LEASE_SECONDS: "15" };
    expect(chooseRoles([], all)).toEqual(["api", "worker", "operator"]);
    expect(chooseRoles(["migrate", "api"], all)).toEqual(["api", "migrate"]);
  });

  test("refuses an unknown role, and an environment without settings", () => {
    expect(() => chooseRoles(["vault"], API)).toThrow('"vault" is not a role');
    expect(() => chooseRoles([], { DATABASE_URL: "" })).toThrow("No role's settings are set");
  });
});

describe("deputize doctor", () => {
  test("lists all faults of the settings in one row, and exits with 1", async () => {
    const environment = { ...API, LOG_LEVEL: "loud", BASE_URL: "ftp://x", CONNECTIONS: "many" };
    const { text, status } = await doctor({ json: true }, { environment });
    const { checks, failed: count } = JSON.parse(text);
    const settings = checks.find(({ name }: { name: string }) => name === "settings of api");
    expect(settings.detail.split("\n")).toEqual([
      expect.stringMatching(/^LOG_LEVEL: /),
      expect.stringMatching(/^BASE_URL: /),
      expect.stringMatching(/^CONNECTIONS: /),
      ...["CA", "CERT", "KEY"].map((name) => `VAULT_${name}_FILE: names a file that cannot be read`),
    ]);
    expect(status).toBe(1);
    expect(count).toBe(checks.filter((each: { status: string }) => each.status === "failed").length);
  });

  test("shows every check of an API that reaches nothing, and no secret", async () => {
    const { text, status } = await doctor({}, { environment: API });
    expect(status).toBe(1);
    for (const name of [
      "database",
      "vault",
      "mail server",
      "public URL",
      "proxy headers",
      "idle connections",
    ]) {
      expect(text).toMatch(new RegExp(`^${name} `, "m"));
    }
    const { text: json } = await doctor({ json: true }, { environment: API });
    expect(text + json).not.toContain(SECRET);
    expect(text + json).not.toContain(WORKER.SEALING_KEY);
  });

  test("prints one JSON object with name, status, detail and action of each check", async () => {
    const { text } = await doctor({ json: true, roles: ["worker"] }, { environment: WORKER });
    const { checks, ...rest } = JSON.parse(text);
    expect(rest).toEqual({ failed: 1 });
    expect(checks[0]).toEqual({
      name: "settings of worker",
      status: "ok",
      detail: "all settings are valid",
      action: null,
    });
    expect(checks[1]).toEqual({
      name: "database",
      status: "failed",
      detail: `${NOBODY}/deputize: the connection is refused: nothing listens there`,
      action: expect.stringContaining("Check host and port"),
    });
  });

  test("uses colors on a terminal only, and never with NO_COLOR", async () => {
    const run = (isTTY: boolean, NO_COLOR?: string) =>
      doctor({}, { environment: { ...WORKER, NO_COLOR }, isTTY });
    expect((await run(true)).text).toContain("\x1b[31m");
    expect((await run(false)).text).not.toContain("\x1b");
    expect((await run(true, "1")).text).not.toContain("\x1b");
  });

  test.each(["host", "host:0", "host:65536", "https://host:443"])("refuses --egress %s", async (egress) => {
    await expect(doctor({ egress }, { environment: WORKER })).rejects.toThrow(
      "--egress must be <host>:<port>",
    );
  });
});

test("the table is aligned, and every line of a detail and the action have their own line", () => {
  const rows = [
    { name: "a", ...ok("fine") },
    { name: "longer", ...failed("one\ntwo", "Do it.") },
  ];
  expect(tableLines(rows, { isColored: false })).toEqual([
    "a       ok           fine",
    "longer  FAILED       one",
    "                     two",
    "                     → Do it.",
    "",
    "2 checks: 1 ok, 1 failed, 0 not checked.",
  ]);
});
