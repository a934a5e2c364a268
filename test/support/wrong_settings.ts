import { type Environment, jsonSchemaOf, type Role, roles } from "./setting_roles.ts";

/** A file without a certificate, and its folder. */
export type WrongFiles = { file: string; folder: string };

type Kinds = Readonly<Record<string, readonly string[] | ((files: WrongFiles) => readonly string[])>>;

/** Values that no setting of the kind accepts. */
const WRONG: Kinds = {
  number: ["-1", "1.5", "1e3", "0x10", " 7", "many", "9999999999999999"],
  line: ["two\nlines", "a\u0000b"],
  token: ["t".repeat(31), `${"t".repeat(32)}\n`],
  key: ["short", `${"A".repeat(42)}=`, "A".repeat(44)],
  path: ({ folder }) => ["/no/such/file", folder],
  file: ({ folder }) => [folder],
  folder: ({ file }) => [file],
  database: [
    "localhost",
    "mysql://localhost/a",
    "postgres://a b/c",
    "postgres://a:1,b:2/c",
    "postgres://a/c?ssl=true",
    "postgres://a/c?sslmode=prefer",
  ],
  url: ["localhost", "https:///path", "ftp://a.example", "https://u:p@a.example", "https://a.example/#b"],
  host: ["http://a.example", "a b", "300.1.1.1", "-a", "a.example:80", "[::1]"],
  "mail server": ["mail.example.com", "https://mail.example.com", "smtp://"],
  sender: ["Deputize", "a@b, c@d"],
  contact: ["call us", "ftp://a.example"],
  "mail addresses": ["ada", "ada@localhost", "a@b.example c@d.example"],
  networks: ["10.0.0.0/64", "10.0.0/8", "fd00::/129", "a.example", "10.0.0.0-10.0.0.9"],
  "dns servers": ["dns.example.com", "192.0.2"],
  word: ["Service", "1a", "a-b", "a".repeat(33)],
  words: ["a,B"],
  scopes: ["data", "no scope"],
  namespaces: ["Shop", "a;b", ","],
  namespace: ["Shop", "a".repeat(64)],
  "label selector": ["team=shop;desk", "team in shop", "=shop", "a=b,"],
  "cluster id": ["a/b", "a".repeat(65)],
  duration: ["30d", "24", "-1s", "1 h"],
  brokers: ["one", "kafka://one:9092", "one:0", "[::1]:9092"],
  prefix: ["a/b", "p".repeat(101)],
  pem: ["/etc/ca.pem", "-----BEGIN CERTIFICATE-----"],
  label: [" a", "x".repeat(33)],
  variables: ["A B", "1A", "A=B"],
};

/** Returns wrong values for a setting with this schema, or none if its kind is unknown. */
export function wrongValues(schema: ReturnType<typeof jsonSchemaOf>, files: WrongFiles): readonly string[] {
  if (schema.enum !== undefined) return ["", "yes", "TRUE", " true"].filter((value) => value !== "");
  const values = WRONG[String(schema.kind)] ?? [];
  return typeof values === "function" ? values(files) : values;
}

/** Returns an environment in which every setting of a role is wrong. */
export function wrongEnvironment(role: Role, files: WrongFiles): Environment {
  const name = Object.keys(roles).find((each) => roles[each] === role) ?? "";
  const names = role.schemas.flatMap((schema) => Object.keys(schema.shape));
  return Object.fromEntries(
    names.map((setting) => [setting, wrongValues(jsonSchemaOf(name, setting), files)[0] ?? ""]),
  );
}
