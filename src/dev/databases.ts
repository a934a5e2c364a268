import { Client } from "pg";

/** A role that owns one database of the same name, and may not enter the others. */
export type OwnDatabase = { name: string; password: string };

/** Makes the databases that are not there yet, each with a role of its own, and gives each role its password. */
export async function prepareDatabases(
  superuserUrl: string,
  databases: readonly OwnDatabase[],
): Promise<void> {
  const client = new Client({ connectionString: superuserUrl });
  client.on("error", () => undefined);
  await client.connect();
  try {
    for (const { name, password } of databases) {
      const [identifier, secret] = [client.escapeIdentifier(name), client.escapeLiteral(password)];
      const roles = await client.query("select from pg_roles where rolname = $1", [name]);
      const verb = roles.rowCount === 0 ? "create" : "alter";
      await client.query(`${verb} role ${identifier} login password ${secret}`);
      const existing = await client.query("select from pg_database where datname = $1", [name]);
      if (existing.rowCount === 0) await client.query(`create database ${identifier} owner ${identifier}`);
      await client.query(`revoke connect on database ${identifier} from public`);
    }
  } finally {
    await client.end();
  }
}

/** The connection string of such a role on a server of this machine. It holds the password: never print it. */
export function databaseUrl({ name, password }: OwnDatabase, port: number): string {
  return `postgres://${name}:${password}@127.0.0.1:${port}/${name}`;
}
