import { describe, expect, test } from "vitest";
import { type Person, runningApi } from "../support/api.ts";
import { registerPlatform } from "../support/platform_world.ts";

const api = runningApi();
const hostile: [string, string][] = [
  ["https://example.com:22/", "callback_url: the port belongs to another protocol"],
  ["https://example.com:25/", "callback_url: the port belongs to another protocol"],
  ["https://example.com/a\\..\\b", "callback_url: it must not contain a backslash"],
  ["https://example.com/?to=\\\\files", "callback_url: it must not contain a backslash"],
];
const refused = (message: string) => ({
  status: 400,
  body: { error: { code: "invalid_callback_url", message } },
});

describe("a callback URL with another protocol's port, or with a backslash", () => {
  test.each(hostile)("cannot be registered with a platform: %s", async (callbackUrl, message) => {
    const person = await api.person();
    const answer = await person.client.post("/v1/service/platforms/personal", {
      name: "Shop",
      surface_type: "agentic_api",
      default_allowed_scopes: ["data:read"],
      callback_url: callbackUrl,
    });
    expect(answer).toMatchObject(refused(message));
  });

  test.each(hostile)("cannot be set as the callback: %s", async (callbackUrl, message) => {
    const person = await api.person();
    const { connectionId } = await registerPlatform(person);
    const set = (url: string) =>
      person.client.call("PUT", `/v1/service/connections/${connectionId}/callback`, {
        body: { callback_url: url },
      });
    expect(await set(callbackUrl)).toMatchObject(refused(message));
    expect(await set("https://example.com:8443/hook")).toMatchObject({ status: 200 });
  });

  test.each(hostile)("cannot be declared by the operator: %s", async (callbackUrl, message) => {
    const { email }: Person = await api.person();
    const answer = await api.operator(
      "PUT",
      "/internal/v1/platforms/c1.11111111-1111-7111-8111-111111111111",
      {
        account_email: email,
        name: "Shop",
        surface_type: "agentic_api",
        default_allowed_scopes: ["data:read"],
        callback_url: callbackUrl,
      },
    );
    expect(answer).toMatchObject(refused(message));
  });
});
