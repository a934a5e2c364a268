import { randomUUID } from "node:crypto";
import { get } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Page } from "../../../src/console/core/page.ts";
import { SIGN_IN } from "../../../src/console/core/places.ts";
import { consolePages } from "../../../src/console/pages.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { formIn } from "../support/console.ts";
import { pathOf, type Seen, viewerOf, visits } from "../support/visits.ts";
import { stored } from "./stored.ts";

let api: TestApi;
let stranger: Seen;
beforeAll(async () => {
  api = await startApi();
  const person = await api.person({ organization_name: "Strangers" });
  const seen = await viewerOf(api, "complete");
  stranger = { ...seen, client: person.client };
});
afterAll(() => api.stop());

/** Returns the status that the attacker gets for a raw path, which `fetch` would normalize. */
function statusOf(path: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = { cookie: `service_session=${stranger.client.cookie("service_session")}` };
    get(`${api.url}/`, { path, headers }, (answer) => resolve(answer.resume().statusCode)).on(
      "error",
      reject,
    );
  });
}

/** Pages about one object. Excludes cluster namespaces, because each account chooses their names itself. */
const pages = consolePages.flatMap((page) =>
  page.path.includes("{") && page.id !== "cluster_namespace" ? [[page.id, page] as const] : [],
);
/** A request to connect belongs to nobody yet. The product sends its address to the person who decides. */
const owned = pages.filter(([id]) => id !== "connect");

/** Removes from a response the parts that always differ. */
function plain(text: string, path: string): string {
  return text
    .replaceAll(path, "/here")
    .replaceAll(`${new URLSearchParams({ back: path })}`, "back=here")
    .replaceAll(/data-session-seconds="\d+"|ends-in-\d+/g, "")
    .replaceAll(/value="[\w-]{43}"/g, "");
}

test.each(owned)(
  "page %s of another account looks like an unknown page, and its forms change nothing",
  async (id, page) => {
    const owner = await viewerOf(api, visits[id]?.viewer ?? "nobody");
    const path = pathOf(id, owner);
    const opened = await owner.open(path);
    expect(opened.status).toBe(200);
    const answer = await stranger.client.get(path);
    const unknown = otherIds(path);
    const nothing = await stranger.client.get(unknown);
    expect([answer.status, plain(answer.text, path)]).toEqual([404, plain(nothing.text, unknown)]);
    const before = await stored(api.db);
    for (const name of formsOf(page)) {
      const isShown = opened.text.includes(`name="form" value="${name}"`);
      const pairs = isShown ? formIn(opened, name).pairs : [["form", name]];
      const body = new URLSearchParams([
        ...pairs.filter(([field]) => field !== "csrf" && field !== "person"),
        ["csrf", stranger.client.cookie("service_csrf") ?? ""],
      ] as [string, string][]).toString();
      const headers = { origin: "http://127.0.0.1", "content-type": "application/x-www-form-urlencoded" };
      const sent = await stranger.client.call("POST", path, { body, headers, csrf: false });
      // An unknown object may have existed earlier, so the page may say that the action was already done.
      const isAway = sent.status === 303 && sent.headers.get("location")?.includes("notice=done_already");
      expect([name, isAway || sent.status >= 400]).toEqual([name, true]);
      expect([name, differences(before, await stored(api.db))]).toEqual([name, []]);
    }
  },
);

test.each(pages)("page %s cannot be found if the ids in its URL are malformed", async (_, page) => {
  for (const odd of [
    "..",
    "%2e%2e",
    "%00",
    "%ff",
    "a%2F..%2Fb",
    "constructor",
    "%F0%9F%92%A9",
    "x".repeat(20_000),
  ]) {
    const path = page.path.replaceAll(/\{\w+\}/g, odd);
    const status = await statusOf(path);
    // A list for an id that is too long may return 400 before the id can return 404.
    expect([odd.slice(0, 20), [400, 404].includes(status ?? 0)]).toEqual([odd.slice(0, 20), true]);
  }
});

function formsOf(page: Page): string[] {
  return "forms" in page ? Object.keys(page.forms ?? {}) : [];
}

function otherIds(path: string): string {
  return path
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, () => randomUUID())
    .replaceAll(/[0-9a-f]{32}/g, () => randomUUID().replaceAll("-", ""));
}

/** Returns the changed tables. Omits the activity of the attacker's organization, which records attempts. */
function differences(before: Record<string, string>, after: Record<string, string>): string[] {
  return Object.keys(after).filter(
    (table) => table !== "organization_activity" && before[table] !== after[table],
  );
}

test.each([
  "//console",
  "/console//requests",
  "/console/./requests",
  "/console/../v1/auth/session",
  "/console/%2e%2e/console",
  "/console%2Frequests",
  "/Console",
  "/console/requests/%2e%2e",
  "/console\\requests",
  "/console;/requests",
  "/console/for/",
  "/console/for/x/requests",
  "/console/assets/../../etc/passwd",
])("the path %s is not found", async (path) => {
  expect(await statusOf(path)).toBe(404);
});

describe("a submitted form body", () => {
  const send = (body: string | Buffer | FormData, headers: Record<string, string>) =>
    fetch(`${api.url}/console/sign-out`, {
      method: "POST",
      body,
      redirect: "manual",
      headers: {
        origin: "http://127.0.0.1",
        cookie: `service_session=${stranger.client.cookie("service_session")}; service_csrf=${stranger.client.cookie("service_csrf")}`,
        ...headers,
      },
    });
  const type = "application/x-www-form-urlencoded";

  test("causes an error if it is huge, compressed, in another charset, or multipart", async () => {
    const multipart = new FormData();
    multipart.set("form", "sign_out");
    const csrf = stranger.client.cookie("service_csrf") ?? "";
    multipart.set("csrf", csrf);
    const right = `form=sign_out&csrf=${csrf}`;
    const sent: [string | Buffer | FormData, Record<string, string>][] = [
      [`${right}&where=${"x".repeat(1_048_576)}`, { "content-type": type }],
      [right, { "content-type": type, "content-encoding": "gzip" }],
      [right, { "content-type": `${type}; charset=utf-7` }],
      [Buffer.from(right, "utf16le"), { "content-type": `${type}; charset=utf-16` }],
      [multipart, {}],
      [right, { "content-type": `${type}, text/plain` }],
      [`${right}&where=%00`, { "content-type": type }],
      [`csrf=${csrf}`, { "content-type": type }],
      [`form=nothing&${right}`, { "content-type": type }],
      [`form[]=sign_out&csrf=${csrf}`, { "content-type": type }],
      [`__proto__=1&form=toString&csrf=${csrf}`, { "content-type": type }],
      ["", { "content-type": type }],
    ];
    for (const [place, [body, headers]] of sent.entries()) {
      expect([place, (await send(body, headers)).status]).toEqual([place, 400]);
    }
    expect((await stranger.client.get("/v1/auth/session")).status).toBe(200);
  });

  test("gets a response even with 100,000 fields or with invalid text", async () => {
    const csrf = stranger.client.cookie("service_csrf");
    const many = `form=nothing&csrf=${csrf}${"&a".repeat(100_000)}`;
    for (const body of [many, `form=nothing&a=%ff%fe%ed%a0%80&${"%".repeat(10_000)}`, "&".repeat(200_000)]) {
      expect((await send(body, { "content-type": type })).status).toBe(400);
    }
    const stale = `form=sign_out&csrf=${"x".repeat(43)}${"&a".repeat(100_000)}`;
    expect((await send(stale, { "content-type": type })).status).toBe(303);
    expect((await stranger.client.get("/v1/auth/session")).status).toBe(200);
  });
});

describe("a session", () => {
  test("ends at a sign-in if an attacker planted it in the browser before", async () => {
    const attacker = await viewerOf(api, "complete");
    const victim = await viewerOf(api, "nobody");
    const email = `planted-${randomUUID().slice(0, 8)}@example.test`;
    const planted = attacker.client.cookie("service_sign_in") ?? "s".repeat(43);
    victim.client.setCookie("service_sign_in", planted);
    const asked = await (await victim.open(SIGN_IN)).send("send_code", { email });
    for (const name of ["service_session", "service_csrf", "service_refresh"]) {
      victim.client.setCookie(name, attacker.client.cookie(name) ?? "");
    }
    await asked.send("verify_code", { code: await victim.client.codeFor(email) });
    const { body } = await victim.client.get("/v1/auth/session");
    expect(body.email).toBe(email);
    for (const name of ["service_session", "service_csrf", "service_refresh"]) {
      expect(victim.client.cookie(name)).not.toBe(attacker.client.cookie(name));
    }
    expect((await attacker.client.get("/v1/auth/session")).body.email).not.toBe(email);
  });
});
