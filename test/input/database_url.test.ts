import { describe, expect, test } from "vitest";
import { readDatabaseUrl } from "../../src/input/database_url.ts";

describe("readDatabaseUrl", () => {
  test.each([
    "postgresql://u:p%40ss@db.example.com:5432/own",
    "postgres://127.0.0.1/own?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.crt",
    "postgresql:///own?host=%2Frun%2Fpostgresql",
    "postgresql://u:p@/own?host=%2Frun%2Fpostgresql",
    "postgresql://u@[::1]:5432/own?sslmode=disable",
  ])("passes %s to the driver as written", (text) => {
    expect(readDatabaseUrl(text)).toEqual({ connectionString: text });
  });

  test("removes what the service itself ensures", () => {
    const text = "postgresql://u@db/own?target_session_attrs=read-write&sslmode=require";
    expect(readDatabaseUrl(text)).toEqual({ connectionString: "postgresql://u@db/own?sslmode=verify-full" });
  });

  test.each(["require", "verify-ca"])("lets sslmode=%s check the certificate and the host", (mode) => {
    const { connectionString } = readDatabaseUrl(`postgresql://u@db/own?sslmode=${mode}&sslrootcert=%2Fca`);
    expect(connectionString).toBe("postgresql://u@db/own?sslmode=verify-full&sslrootcert=%2Fca");
  });

  test.each(["-c search_path=own_schema", "-csearch_path=own_schema"])(
    "reads the schema from %s",
    (options) => {
      const text = `postgresql://u@db/own?options=${encodeURIComponent(options)}`;
      expect(readDatabaseUrl(text)).toEqual({
        connectionString: "postgresql://u@db/own",
        schema: "own_schema",
      });
    },
  );

  test.each([
    ["an empty text", "", "must begin with postgresql://"],
    ["another protocol", "mysql://u@db/own", "must begin with postgresql://"],
    ["two hosts", "postgresql://u:secret@one:5432,two:5432/own", "names several hosts"],
    [
      "two hosts without ports",
      "postgresql://one,two/own?target_session_attrs=read-write",
      "names several hosts",
    ],
    ["two hosts in a parameter", "postgresql:///own?host=one,two", "names several hosts"],
    ["an unencoded password", "postgresql://u:sec#ret@db:5432/own", "percent-encode"],
    ["a port that is none", "postgresql://u:secret@db:port/own", "is not a URL"],
    ["a TLS mode that allows plain text", "postgresql://db/own?sslmode=prefer", "has an unsupported sslmode"],
    ["an unknown TLS mode", "postgresql://db/own?sslmode=verify_full", "has an unsupported sslmode"],
    ["the parameter ssl", "postgresql://db/own?ssl=true", "write sslmode=verify-full"],
    ["a standby", "postgresql://db/own?target_session_attrs=standby", "an unsupported target_session_attrs"],
    ["a time limit", "postgresql://db/own?connect_timeout=10", "the unsupported parameter connect_timeout"],
    ["a misspelled parameter", "postgresql://db/own?sslmodus=require", "the unsupported parameter sslmodus"],
    ["another name", "postgresql://db/own?application_name=x", "the unsupported parameter application_name"],
    ["other options", "postgresql://db/own?options=-c%20datestyle%3DSQL", "has options other than"],
    ["several schemas", "postgresql://db/own?options=-c%20search_path%3Da%2Cb", "has options other than"],
  ])("refuses %s, and does not show the password", (_, text, message) => {
    expect(() => readDatabaseUrl(text)).toThrow(message);
    expect(() => readDatabaseUrl(text)).not.toThrow(/sec#?ret/);
  });
});
