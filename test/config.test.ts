import { describe, expect, test } from "vitest";
import { ConfigError, readApiConfig } from "../src/config.ts";

const environment = {
  DATABASE_URL: "postgres://localhost/none",
  SEALING_KEY: `${"A".repeat(43)}=`,
  VAULT_URL: "https://localhost",
  VAULT_CA_FILE: "ca",
  VAULT_CERT_FILE: "cert",
  VAULT_KEY_FILE: "key",
  DEVELOPMENT: "true",
};

describe("BASE_URL", () => {
  test.each([
    "http://127.0.0.1:8080",
    "https://api.example.com",
    "https://api.example.com/",
    "https://h/pdp/v1",
  ])("may be %s, and stays as it is written", (url) =>
    expect(readApiConfig({ ...environment, BASE_URL: url }).BASE_URL).toBe(url),
  );

  test.each([
    "https:///x",
    "https:/x",
    "https:x",
    "https:\\\\x",
    "https://a\\b",
    "https://",
    "ftp://a",
    "https://u:p@a",
    "https://a?b",
    "https://a#b",
    "a.example",
  ])("may not be %s", (url) => {
    const read = () => readApiConfig({ ...environment, BASE_URL: url });
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(/BASE_URL: /);
  });
});

test("a URL that another setting names must name its host as well", () => {
  const read = () => readApiConfig({ ...environment, BASE_URL: "https://a", VAULT_URL: "https:///x" });
  expect(read).toThrow(/VAULT_URL: must name its host/);
});
