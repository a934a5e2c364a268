import { z } from "zod";

/** A database's URL for the driver, and the schema that the URL names for its sessions. */
export type DatabaseAddress = { connectionString: string; schema?: string };

/** A database URL that the driver would refuse, or would silently read in another way than written. */
export class DatabaseUrlError extends Error {}

const SUPPORTED = ["host", "sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs", "options"];
/** Modes that the driver applies as written or more strictly. With most, it checks certificate and host. */
const TLS_MODES = ["disable", "no-verify", "require", "verify-ca", "verify-full"];
/** Every session is checked to be writable, so these values change nothing. */
const WRITABLE = ["read-write", "primary"];
const SCHEMA = /^-c ?search_path=([a-z_][a-z0-9_]{0,62})$/;

/**
 * Reads the URL of a Postgres database. Throws {@link DatabaseUrlError} for each part that the driver would
 * ignore or misread. The message follows the name of the setting and contains no secret.
 */
export function readDatabaseUrl(text: string): DatabaseAddress {
  if (!/^postgres(?:ql)?:\/\//.test(text)) throw new DatabaseUrlError("must begin with postgresql://");
  const [base = "", query = ""] = text.split(/\?(.*)/s);
  const parameters = new URLSearchParams(query);
  const host = parameters.get("host") ?? base.replace(/^[a-z]+:\/\/(?:.*@)?/s, "").replace(/\/.*/s, "");
  if (/,|%2c/i.test(host)) {
    throw new DatabaseUrlError(
      "names several hosts: name one that always leads to the primary, such as a Service or a proxy",
    );
  }
  // The driver accepts an empty host after a user, if the parameter `host` names the folder of a socket.
  if (!URL.canParse(base.replace("@/", "@socket/"))) {
    throw new DatabaseUrlError(
      "is not a URL: write postgresql://<user>:<password>@<host>:<port>/<database>, and percent-encode " +
        "special characters of the password",
    );
  }
  for (const [name, value] of parameters) checkParameter(name, value);
  const options = parameters.get("options");
  // The driver checks as much in these modes, but prints that its next version will not.
  if (["require", "verify-ca"].includes(parameters.get("sslmode") ?? "")) {
    parameters.set("sslmode", "verify-full");
  }
  parameters.delete("options");
  parameters.delete("target_session_attrs");
  const connectionString = parameters.size === 0 ? base : `${base}?${parameters}`;
  return options === null ? { connectionString } : { connectionString, schema: readSchema(options) };
}

/** A setting that contains the URL of a database. */
export const databaseUrl = z
  .string()
  .meta({ kind: "database" })
  .superRefine((text, context) => {
    try {
      readDatabaseUrl(text);
    } catch (error) {
      if (!(error instanceof DatabaseUrlError)) throw error;
      context.addIssue({ code: "custom", message: error.message });
    }
  });

/**
 * Settings of the database. Connections to `DATABASE_URL` may share server connections through a pooler. Work
 * that needs a session uses `DATABASE_DIRECT_URL`, if it is set.
 */
export const databaseFields = { DATABASE_URL: databaseUrl, DATABASE_DIRECT_URL: databaseUrl.optional() };

/** The settings that can be in files, because they contain passwords. */
export const DATABASE_SECRETS = ["DATABASE_URL", "DATABASE_DIRECT_URL"] as const;

/** The most connections to the database that an API process holds by default. */
export const API_CONNECTIONS = 25;

/** The URLs of the database. */
export type DatabaseUrls = { DATABASE_URL: string; DATABASE_DIRECT_URL?: string | undefined };

/** Returns the URL for work that needs a session: LISTEN, session locks, temporary tables and migrations. */
export function directUrlOf({ DATABASE_URL, DATABASE_DIRECT_URL }: DatabaseUrls): string {
  return DATABASE_DIRECT_URL ?? DATABASE_URL;
}

function checkParameter(name: string, value: string): void {
  if (name === "ssl") throw new DatabaseUrlError("has the parameter ssl: write sslmode=verify-full instead");
  if (!SUPPORTED.includes(name)) {
    throw new DatabaseUrlError(`has the unsupported parameter ${name}: remove it`);
  }
  const allowed = { sslmode: TLS_MODES, target_session_attrs: WRITABLE }[name];
  if (allowed !== undefined && !allowed.includes(value)) {
    throw new DatabaseUrlError(`has an unsupported ${name}: write ${allowed.join(" or ")}`);
  }
}

function readSchema(options: string): string {
  const schema = SCHEMA.exec(options)?.[1];
  if (schema !== undefined) return schema;
  throw new DatabaseUrlError(
    "has options other than `-c search_path=<schema>`: the service sets all other parameters of its sessions",
  );
}
