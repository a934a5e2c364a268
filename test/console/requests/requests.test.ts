import { afterAll, beforeAll, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { approve, requested, selfRequest } from "../../support/platform_world.ts";
import { browserOf } from "../support/console.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

test("the list of requests shows all requests or those in one state, newest first, page by page", async () => {
  const { person, platform, requestId } = await requested(api, { requested_scope: ["data:read"] });
  await approve(person, requestId, ["data:read"]);
  for (let count = 0; count < 26; count += 1) {
    api.clock.advance(1);
    await selfRequest(person, platform.connectionId, { requested_scope: ["payments:send"] });
  }
  const browser = browserOf(api, person.client);
  const all = await browser.open("/console/requests");
  expect(all.text).toMatch(/<a href="\/console\/requests" aria-current="page"><svg .*?<\/svg>Requests /);
  expect(all.text.match(/<tr role="row"><th scope="row"/g)).toHaveLength(25);
  expect(all.words).toContain("shop-bot of Shop");
  const rest = await browser.open(all.element("link to the next page", /rel="next" href="([^"]*)"/));
  expect(rest.text.match(/<tr role="row"><th scope="row"/g)).toHaveLength(2);
  expect(rest.text).toContain(`href="/console/requests/${requestId}"`);
  const approved = await browser.open("/console/requests?status=approved");
  expect(approved.text.match(/<tr role="row"><th scope="row"/g)).toHaveLength(1);
  expect(approved.text).toContain('<option value="approved" selected>');
  expect((await browser.open("/console/requests?status=denied")).words).toContain(
    "There are no such requests.",
  );
});

test("an organization's requests have links to the organization's pages", async () => {
  const { person, requestId } = await requested(api);
  const { client } = await addMember(api, person.accountId, "auditor");
  const { text } = await browserOf(api, client).open(`/console/for/${person.accountId}/requests`);
  expect(text).toContain(`href="/console/for/${person.accountId}/requests/${requestId}"`);
});

test("each page shows the people who may decide how many requests wait, also in its title", async () => {
  const { person, requestId, platform } = await requested(api);
  await selfRequest(person, platform.connectionId);
  const { open } = browserOf(api, person.client);
  const shown = await open("/console/agents");
  expect(shown.text).toMatch(/<title>\(2\) /);
  expect(shown.words).toContain("Requests 2 waiting");
  await person.client.post(`/v1/service/delegations/requests/${requestId}/deny`, {});
  expect((await open("/console/agents")).words).toContain("Requests 1 waiting");
  api.clock.advance(8 * 24 * 3600);
  await person.client.signIn(person.email);
  const later = await open("/console/agents");
  expect(later.text).not.toMatch(/<title>\(|waiting<\/span>/);
});
