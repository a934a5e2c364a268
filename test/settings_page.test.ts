import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { settingNames, settingRows } from "../src/dev/chart/values_schema.ts";
import { type Environment, faultOf, jsonSchemaOf, type Role, roles } from "./support/setting_roles.ts";

/** Settings that a role reads and checks, but does not use. */
const UNUSED: Record<string, string[]> = {
  worker: ["KAFKA_PARTITIONS", "KAFKA_REPLICATION"],
  events: ["KAFKA_PARTITIONS", "KAFKA_REPLICATION", "MIGRATE_WAIT_SECONDS"],
};

/** A setting of a role in a table of a page. `byDefault` is the default value; `undefined` means none. */
type Setting = { name: string; role: string; column: string; byDefault: string | undefined; meaning: string };

const readPage = (page: string) => readFileSync(new URL(`../docs/${page}`, import.meta.url), "utf8");

function settingsIn([, named = "", listed = "", column = "", meaning = ""]: string[]): Setting[] {
  const names = settingNames(named);
  const isOne = names.length === 1 || column.startsWith("required");
  const defaults = isOne ? [column] : column.split(/[,;] /);
  if (defaults.length !== 1 && defaults.length !== names.length) throw new Error(`${named} has ${column}`);
  return names.flatMap((name, n) => {
    const byDefault = /^`([^`]*)`$/.exec(defaults[defaults.length === 1 ? 0 : n] ?? "")?.[1];
    return listed.split(", ").map((role) => ({ name, role, column, byDefault, meaning }));
  });
}

const settings = [
  ...settingRows(readPage("settings.md")).flatMap(settingsIn),
  ...settingRows(readPage("keyvault_reference.md")).flatMap(([start = "", named = "", ...others]) =>
    settingsIn([start, named, "vault", ...others]),
  ),
];

/** Returns settings from a text such as `EVENTS=kafka`, with any valid value if the text names none. */
function settingsOf(text: string): Environment {
  const [name = "", value = name === "KAFKA_SASL_MECHANISM" ? "PLAIN" : "any"] = text.split("=");
  return { [name]: value };
}

const label = ({ role, name }: Setting) => `${role}: ${name}`;
const cases = (of: Setting[]) => of.map((setting): [string, Setting] => [label(setting), setting]);
const jsonOf = ({ role, name }: Setting) => jsonSchemaOf(role, name);
const isNumber = (setting: Setting) => jsonOf(setting).kind === "number";

describe("the pages about settings", () => {
  test.each(Object.keys(roles))("list exactly the settings of the role %s", (role) => {
    const { schemas } = roles[role] as Role;
    const known = new Set(schemas.flatMap((schema) => Object.keys(schema.shape)));
    const listed = settings.filter((each) => each.role === role).map(({ name }) => name);
    const used = [...known].filter((name) => !UNUSED[role]?.includes(name));
    expect(listed.sort()).toEqual(used.sort());
  });

  test("name no unknown role", () => {
    expect(settings.filter(({ role }) => !(role in roles)).map(label)).toEqual([]);
  });

  test.each(cases(settings.filter(({ column }) => column === "required")))(
    "call a setting required that the role does not start without: %s",
    (_, { role, name }) => {
      expect(faultOf(role, { [name]: undefined })).toContain(`${name}: `);
      expect(faultOf(role, {})).toBe("");
    },
  );

  test.each(cases(settings.filter(({ column }) => !column.startsWith("required"))))(
    "have the default of %s",
    (_, { role, name, byDefault }) => {
      const { least, read, schemas } = roles[role] as Role;
      if (role !== "vault") expect(read({ ...least, [name]: "" })).toEqual(read(least));
      if (byDefault === undefined) {
        const value = schemas.at(-1)?.parse(least)[name];
        expect([undefined, "", []]).toContainEqual(value);
      } else {
        const value = least[byDefault] ?? byDefault.replace("<data>", least.KEYVAULT_DATA_DIR ?? "");
        expect(read({ ...least, [name]: value })).toEqual(read(least));
      }
    },
  );

  test.each(cases(settings.filter(({ column }) => column.startsWith("required "))))(
    "say when a setting is required: %s",
    (_, { role, name, column }) => {
      const conditions = [...column.matchAll(/`([^`]+)`/g)].map(([, text = ""]) => settingsOf(text));
      if (column === "required outside development") {
        expect(faultOf(role, { [name]: undefined })).toContain(`${name}: is required`);
        expect(faultOf(role, { [name]: undefined, DEVELOPMENT: "true" })).toBe("");
        return;
      }
      expect(conditions.length, column).toBeGreaterThan(0);
      expect(faultOf(role, {})).toBe("");
      for (const condition of conditions) {
        expect(faultOf(role, condition)).toContain(`${name}: `);
        expect(faultOf(role, { ...condition, [name]: "any" })).not.toMatch(`${name}: is required`);
      }
    },
  );

  test.each(cases(settings.filter(({ meaning }) => /(?:only|not) with `/.test(meaning))))(
    "say with which settings a setting is refused: %s",
    (_, { role, name, meaning }) => {
      const [, kind, text = ""] = /(only|not) with `([^`]+)`/.exec(meaning) ?? [];
      const own = { [name]: name === "KAFKA_BROKERS" ? "a:1" : "1h" };
      const needs = new RegExp(`${name}: (needs|is for)`);
      expect(needs.test(faultOf(role, own))).toBe(kind === "only");
      expect(needs.test(faultOf(role, { ...own, ...settingsOf(text) }))).toBe(kind === "not");
    },
  );

  /** Numbers have a documented range, or else may be 0 or a million. Ports are as usual. */
  test.each(cases(settings.filter(isNumber)))("have the limits of %s", (_, { role, name, meaning }) => {
    const range = /(?<![\w.])(\d+) to (\d+)(?![\w.])/.exec(meaning);
    const from = Number(range?.[1] ?? 0);
    const to = name.endsWith("PORT") ? 65_535 : range?.[2];
    for (const good of [from, to ?? 1_000_000]) expect(faultOf(role, { [name]: String(good) })).toBe("");
    const bad = [from - 1, from + 0.5, "many", ...(to === undefined ? [] : [Number(to) + 1])];
    for (const value of bad) expect(faultOf(role, { [name]: String(value) })).toContain(`${name}: `);
  });

  test("name every value of a setting that has few values", () => {
    for (const setting of settings) {
      const values = (jsonOf(setting).enum ?? []) as string[];
      for (const value of values) {
        const text = `${setting.column} ${setting.meaning}`;
        if (value !== setting.byDefault) expect(text, label(setting)).toContain(`\`${value}\``);
      }
    }
  });

  test("list exactly the settings that can come from a file", () => {
    const [, listed = ""] = /This works for ([\s\S]*?) \(/.exec(readPage("settings.md")) ?? [];
    const vaultText = settingRows(readPage("keyvault_reference.md")).join();
    const documented = ({ role, name }: Setting) =>
      role === "vault" ? vaultText.includes(`\`${name}_FILE\``) : listed.includes(`\`${name}\``);
    const readable = ({ role, name }: Setting) =>
      faultOf(role, { [name]: undefined, [`${name}_FILE`]: "/none" }).includes(`${name}_FILE: names a file`);
    for (const setting of settings) expect(readable(setting), label(setting)).toBe(documented(setting));
  });
});
