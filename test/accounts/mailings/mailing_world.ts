import { expect } from "vitest";
import type { Mail } from "../../../src/accounts/mail/smtp.ts";
import { sendMailings } from "../../../src/accounts/mailings/sender.ts";
import { createStopTokens } from "../../../src/accounts/mailings/stop_links.ts";
import { type ApiOptions, runningApi, type TestApi } from "../../support/api.ts";
import { actingFor, addMember } from "../../support/members.ts";
import { createAgent, registerPlatform } from "../../support/platform_world.ts";

/** An API whose mails about requests a test sends and reads. */
export type MailingApi = TestApi & {
  /** Sends everything that is due, and returns the mails about requests to this address so far. */
  mailsTo(email: string): Promise<Mail[]>;
  /** Does the same, and returns the subjects. */
  subjectsTo(email: string): Promise<string[]>;
  /** Makes every mail fail with this error until the returned function is called. */
  breakMail(error?: object): () => void;
};

const BASE_URL = "https://deputize.example.com/agents";

/** Returns a mail of the API's own loop as if the API had the base URL of the tests. */
function moved(mail: Mail): Mail {
  return JSON.parse(JSON.stringify(mail).replaceAll("http://127.0.0.1/", `${BASE_URL}/`));
}

/** Starts an API before the first test of a file. Its own loop may send the mails before the test does. */
export function mailingApi(options: ApiOptions = {}): MailingApi {
  const mails: Mail[] = [];
  let fault: object | undefined;
  const mailer = {
    async send(mail: Mail) {
      if (fault !== undefined) throw Object.assign(new Error("The mail failed"), fault);
      mails.push(mail);
    },
    close() {},
  };
  const api = runningApi({
    ...options,
    mailer: (own) => ({
      ...own,
      send: (mail) => (mail.headers === undefined ? own.send(mail) : mailer.send(moved(mail))),
    }),
  });

  async function settle(): Promise<void> {
    const { db, clock, log, sealingKey } = api;
    const deps = { db, clock, log, mailer, tokens: createStopTokens(sealingKey), attemptMs: 1_000 };
    const place = { baseUrl: BASE_URL, word: "service" };
    for (let isDue = true; isDue; ) {
      await sendMailings({ ...deps, place, measure: () => {} }, 8);
      const { rows } = await db.raw(
        `select exists(select from mail_topics)
             or exists(select from mailing_queues where next_attempt_at <= :now or (attempts > 0 and not :isBroken)) as due`,
        { now: clock.now(), isBroken: fault !== undefined },
      );
      isDue = rows[0].due;
    }
  }

  async function mailsTo(email: string): Promise<Mail[]> {
    await settle();
    return mails.filter(({ to }) => to === email);
  }

  return Object.assign(api, {
    mailsTo,
    subjectsTo: async (email: string) => (await mailsTo(email)).map(({ subject }) => subject),
    breakMail(error = { code: "ECONNREFUSED" }) {
      fault = error;
      return () => {
        fault = undefined;
      };
    },
  });
}

/** An organization with one member of each role, and a platform with an agent. */
export async function mailedOrganization(api: TestApi, name = "Webshop") {
  const owner = await api.person({ organization_name: name });
  const approver = await addMember(api, owner.accountId, "approver");
  const developer = await addMember(api, owner.accountId, "developer");
  const auditor = await addMember(api, owner.accountId, "auditor");
  const platform = await registerPlatform(owner, {}, "/v1/service/platforms");
  await createAgent(api.client(), platform);
  const ask = async (person = developer, body: object = {}) => {
    const path = "/v1/service/delegations/self-request";
    const call = { connection_id: platform.connectionId, ...body };
    const answer = await actingFor(person, owner.accountId).post(path, call);
    expect(answer.status, answer.text).toBe(201);
    return String(answer.body.request_id);
  };
  return { owner, approver, developer, auditor, platform, ask };
}
