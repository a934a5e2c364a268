import { Client } from "pg";

/** A login role and its password. */
export type LoginRole = { name: string; password: string };

/**
 * A role that owns one database of the same name and may not enter the others, and one that may enter it too
 * and owns nothing.
 */
export type OwnDatabase = LoginRole & { guest?: LoginRole };

/**
 * Makes the databases that are not there yet, each with roles of its own, and gives each role its password.
 */
export async function prepareDatabases(
  superuserUrl: string,
  databases: readonly OwnDatabase[],
): Promise<void> {
  const client = new Client({ connectionString: superuserUrl });
  client.on("error", () => undefined);
  await client.connect();
  try {
    for (const { guest, ...database } of databases) {
      const identifier = await prepareRole(client, database);
      const existing = await client.query("select from pg_database where datname = $1", [database.name]);
      if (existing.rowCount === 0) await client.query(`create database ${identifier} owner ${identifier}`);
      await client.query(`revoke connect on database ${identifier} from public`);
      if (guest === undefined) continue;
      await client.query(`grant connect on database ${identifier} to ${await prepareRole(client, guest)}`);
    }
  } finally {
    await client.end();
  }
}

/** Makes a role unless it is there, gives it its password, and returns its name as SQL writes it. */
async function prepareRole(client: Client, { name, password }: LoginRole): Promise<string> {
  const identifier = client.escapeIdentifier(name);
  const roles = await client.query("select from pg_roles where rolname = $1", [name]);
  const verb = roles.rowCount === 0 ? "create" : "alter";
  await client.query(`${verb} role ${identifier} login password ${client.escapeLiteral(password)}`);
  return identifier;
}

/**
 * The connection string of a role for a database on a server of this machine. It holds the password: never
 * print it.
 */
export function databaseUrl({ name, password }: LoginRole, port: number, database = name): string {
  return `postgres://${name}:${password}@127.0.0.1:${port}/${database}`;
}
