import { expect, test } from "vitest";
import { insertNotice } from "./support/account_rows.ts";
import { runningApi, startApi } from "./support/api.ts";
import { holdLoopPauses } from "./support/loop_pauses.ts";
import { until } from "./support/process.ts";

const BASE_URL = "https://desk.example.test";
const config = {
  BASE_URL,
  SERVICE_WORD: "desk",
  SERVICE_WORD_ALIASES: ["counter"],
  SUPPORT_CONTACT: "help@desk.example.test",
};
const UPKEEP = 30 * 60_000;
const pauses = holdLoopPauses([UPKEEP]);
const asked: string[] = [];
const api = runningApi({
  config: { ...config, SEND_CODE_PER_ADDRESS: 0 },
  async lookupTxt(name) {
    asked.push(name);
    return "found";
  },
});

async function mailTo(email: string): Promise<string> {
  const { body } = await api.client().get("/dev/mailbox", { headers: { accept: "application/json" } });
  const mails = body.mails as { to: string; text: string }[];
  return mails.find(({ to }) => to === email)?.text ?? "";
}

test("the API serves paths with SERVICE_WORD and its aliases, and no others", async () => {
  const { client } = await api.person();
  const statuses = [];
  for (const word of ["desk", "counter", "service"]) {
    statuses.push((await client.get(`/v1/${word}/credits`)).status);
  }
  expect(statuses).toEqual([200, 200, 404]);
});

test("the API describes its paths at BASE_URL with SERVICE_WORD", async () => {
  const { body } = await api.client().get("/openapi.json");
  expect(JSON.stringify(body.servers)).toContain(BASE_URL);
  expect(Object.keys(body.paths as object)).toContain("/v1/desk/credits");
  expect((await api.client().get("/asyncapi.json")).text.includes("X-Desk-Signature")).toBe(true);
});

test("the API leads browsers to the console at BASE_URL", async () => {
  const { headers } = await api.client().get("/", { headers: { accept: "text/html" } });
  expect(headers.get("location")).toBe(`${BASE_URL}/console`);
});

test("the API serves the files of its pages below the path of BASE_URL", async () => {
  const own = await startApi({ shares: api, config: { ...config, BASE_URL: `${BASE_URL}/below` } });
  const { text } = await own.client().get("/v1/auth/email/console", { headers: { accept: "text/html" } });
  const style = /href="([^"]*\/assets\/style[^"]*)"/.exec(text)?.[1] ?? "";
  await own.stop();
  expect(style).toMatch(/^\/below\/console\/assets\//);
});

test("the API mails links to its own sign-in page without SIGN_IN_URL", async () => {
  const email = "linked@example.test";
  await api.client().post("/v1/auth/email/send-code", { email });
  expect(await mailTo(email)).toContain(`${BASE_URL}/v1/auth/email/console/code#code=`);
});

test("the API mails invitations with a link to the console's page", async () => {
  const { client } = await api.person({ organization_name: "Engines" });
  const email = "invited@example.test";
  const { status } = await client.post("/v1/desk/organization/members", { email, role: "auditor" });
  expect([status, await mailTo(email)]).toEqual([
    201,
    expect.stringContaining(`${BASE_URL}/console/invitations/accept`),
  ]);
});

test("the API mails notices with a link below BASE_URL, and with SUPPORT_CONTACT", async () => {
  const { accountId, email } = await api.person();
  await insertNotice(api.db, { accountId, at: api.clock.now() });
  await until("the notice is mailed", async () => (await mailTo(email)).includes("running low"));
  const text = await mailTo(email);
  expect(text).toContain(`${BASE_URL}/console/for/${accountId}/credit`);
  expect(text).toContain(`the people who run this service (${config.SUPPORT_CONTACT})`);
});

test("the API asks for a TXT record with SERVICE_WORD, when it verifies a domain and when it looks again", async () => {
  const { client } = await api.person({ organization_name: "Engines" });
  const domains = "/v1/desk/organization/domains";
  const { body } = await client.post(domains, { domain: "engines.example.com" });
  const name = "_desk-challenge.engines.example.com";
  expect(body.record).toMatchObject({ name });
  await client.post(`${domains}/engines.example.com/verify`);
  const endPause = await pauses.begun(UPKEEP);
  api.clock.advance(24 * 60 * 60);
  endPause();
  await pauses.begun(UPKEEP);
  expect(asked).toEqual([name, name]);
});
