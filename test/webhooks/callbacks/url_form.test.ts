import { describe, expect, test } from "vitest";
import { callbackUrlForm, createAddressPolicy } from "../../../src/webhooks/callback_address.ts";

const production = createAddressPolicy({ development: false, allowedCidrs: ["127.0.0.0/8", "10.1.0.0/16"] });
const development = createAddressPolicy({ development: true, allowedCidrs: ["127.0.0.0/8"] });
const closed = createAddressPolicy({ development: true, allowedCidrs: [] });

describe("a callback URL", () => {
  test.each([
    "https://hooks.example.com/in?x=1",
    "https://example.com:443/",
    "https://example.com:8443/",
    "https://example.com:21000/",
    "https://münchen.example/",
  ])("may be %s", (url) => expect(callbackUrlForm(url, production)).toHaveProperty("url"));

  test.each([
    ["http://hooks.example.com/", "the scheme must be https"],
    ["ftp://hooks.example.com/", "the scheme must be https"],
    ["file:///etc/passwd", "the scheme must be https"],
    ["javascript:alert(1)", "the scheme must be https"],
    ["https://user@example.com/", "it must not contain a user name or password"],
    ["https://:pass@example.com/", "it must not contain a user name or password"],
    ["https:///x", "the host must be between https:// and the next slash"],
    ["https:/x", "the host must be between https:// and the next slash"],
    ["https:x", "the host must be between https:// and the next slash"],
    ["https:\\\\x/", "the host must be between https:// and the next slash"],
    ["https://a\\b.example/", "the host must be between https:// and the next slash"],
    ["https://a.example\\@b.example/", "the host must be between https:// and the next slash"],
    ["https://a.example/x\\y", "it must not contain a backslash"],
    ["https://a.example/?x=\\", "it must not contain a backslash"],
    ["https://example.com:22/", "the port belongs to another protocol"],
    ["https://example.com:0/", "the port belongs to another protocol"],
    ["https://example.com:025/", "the port belongs to another protocol"],
    ["https://example.com:6000/", "the port belongs to another protocol"],
    ["https://example.com:10080/", "the port belongs to another protocol"],
    ["", "not a URL of at most 2048 characters"],
    ["hooks.example.com", "not a URL of at most 2048 characters"],
    ["https://", "not a URL of at most 2048 characters"],
    ["https://exa mple.com", "not a URL of at most 2048 characters"],
    ["https://127.0.0.1/", "the host must be a name that is not this machine's own"],
    ["https://2130706433/", "the host must be a name that is not this machine's own"],
    ["https://0x7f.1/", "the host must be a name that is not this machine's own"],
    ["https://0177.0.0.1/", "the host must be a name that is not this machine's own"],
    ["https://[::1]/", "the host must be a name that is not this machine's own"],
    ["https://[::ffff:7f00:1]/", "the host must be a name that is not this machine's own"],
    ["https://169.254.169.254/latest/meta-data", "the host must be a name that is not this machine's own"],
    ["https://localhost/", "the host must be a name that is not this machine's own"],
    ["https://LOCALHOST./", "the host must be a name that is not this machine's own"],
    ["https://a.b.localhost/", "the host must be a name that is not this machine's own"],
  ])("may not be %s", (url, refused) => expect(callbackUrlForm(url, production)).toEqual({ refused }));

  test("has at most 2048 characters", () => {
    const url = `https://example.com/${"a".repeat(2028)}`;
    expect(callbackUrlForm(url, production)).toHaveProperty("url");
    expect(callbackUrlForm(`${url}a`, production)).toHaveProperty("refused");
  });

  test("may be plain http and this machine in development, when the allow-list names it", () => {
    for (const url of ["http://127.0.0.1:8080/hook", "http://localhost:8080/", "http://example.com/"]) {
      expect(callbackUrlForm(url, development)).toHaveProperty("url");
    }
    expect(callbackUrlForm("http://127.0.0.1:8080/hook", closed)).toHaveProperty("refused");
    expect(callbackUrlForm("http://localhost:8080/hook", closed)).toHaveProperty("refused");
  });

  test("may be a literal address of a private network that the allow-list names", () => {
    expect(callbackUrlForm("https://10.1.2.3/", production)).toHaveProperty("url");
    expect(callbackUrlForm("https://10.2.2.3/", production)).toHaveProperty("refused");
  });
});
