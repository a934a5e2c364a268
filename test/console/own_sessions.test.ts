import { afterAll, beforeAll, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/api.ts";
import { browserOf } from "./support/console.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

async function twoBrowsers() {
  const person = await api.person();
  const lost = api.client();
  await lost.signIn(person.email);
  const { body } = await person.client.get("/v1/auth/sessions");
  const sessions = body.sessions as { session_id: string; current: boolean }[];
  const idOf = (isCurrent: boolean) =>
    sessions.find(({ current }) => current === isCurrent)?.session_id ?? "none";
  const page = await browserOf(api, person.client).open("/console/account");
  return { lost, page, here: idOf(true), there: idOf(false) };
}

test("a person ends the sign-in of a lost device on the account page, and stays signed in", async () => {
  const { lost, page, there } = await twoBrowsers();
  expect(page.words).toMatch(/Where you are signed in.*\(this browser\) Signed in on .* Last used around/);
  const done = await page.send("end_session", { session_id: there });
  expect([done.status, done.path]).toEqual([200, "/console/account?notice=session_ended"]);
  expect(done.words).toContain("Ended. That browser is signed out.");
  expect((await lost.get("/v1/auth/session")).status).toBe(401);
  expect((await page.send("end_session", { session_id: there })).words).toContain(
    "That was already done, or no longer exists.",
  );
});

test("a person who ends the sign-in of this browser arrives at the sign-in page", async () => {
  const { page, here } = await twoBrowsers();
  const done = await page.send("end_session", { session_id: here });
  expect(done.path).toBe("/v1/auth/email/console?notice=signed_out");
  expect(done.words).toContain("You are signed out.");
});
