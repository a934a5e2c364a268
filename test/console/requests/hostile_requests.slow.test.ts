import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isPlainLine } from "../../../src/input/plain_text.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { requested } from "../../support/platform_world.ts";
import { XSS_CORPUS } from "../../support/xss_corpus.ts";
import { browserOf, markupOf } from "../support/console.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

/** Creates a request in a person's account, and opens its page. */
async function waiting(fields: Record<string, unknown> = {}) {
  const made = await requested(api, { requested_scope: ["data:read", "payments:send"], ...fields });
  const browser = browserOf(api, made.person.client);
  const path = `/console/requests/${made.requestId}`;
  return { ...made, path, page: await browser.open(path), browser };
}

describe("text from untrusted parties", () => {
  /**
   * Returns a request's page with this text in every field that others write, and the page after a denial.
   */
  async function pagesWith(text: string) {
    const { browser, path, person, requestId, agentId } = await waiting();
    const scope = `custom:${text}`;
    const row = { external_id: `c1.${randomUUID()}`, object_name: text, requested_user: text };
    // Constraints cannot contain text with hidden characters.
    const rule = isPlainLine(text) ? text : "text";
    const constraints = [{ type: rule, params: { [rule]: rule } }];
    await api.db("agents").where({ agent_id: agentId }).update({ name: text });
    await api
      .db("platforms")
      .where({ account_id: person.accountId })
      .update({ name: text, default_allowed_scopes: [scope] });
    await api
      .db("delegation_requests")
      .where({ request_id: requestId })
      .update({ ...row, requested_scope: [scope], constraints: JSON.stringify(constraints) as never });
    const asked = await browser.open(path);
    const typed = await asked.send("approve", { currency: text, resource_id: text, show: "preview" });
    await asked.send("deny", { reason: "text" });
    await api.db("delegation_requests").where({ request_id: requestId }).update({ reason: text });
    return [
      asked,
      typed,
      await browser.open(path),
      await browser.open("/console/requests"),
      await browser.open("/console"),
    ];
  }

  test.each(XSS_CORPUS)("appears escaped on the page of a request: %j", async (text) => {
    // The page has a note about these characters in a limit, because an SDK cannot rebuild the certificate.
    const plain = await pagesWith(isPlainLine(text) && /[<>&]/.test(text) ? "text & text" : "text");
    const hostile = await pagesWith(text);
    expect(hostile.map(({ status }) => status)).toEqual(plain.map(({ status }) => status));
    for (const [place, shown] of hostile.entries()) {
      expect(markupOf(shown.text).filter((tag) => !tag.startsWith("<input"))).toEqual(
        markupOf(plain[place]?.text ?? "").filter((tag) => !tag.startsWith("<input")),
      );
    }
  });
});
