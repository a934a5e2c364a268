import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import type { ClientRates } from "../../rates/client_rates.ts";
import { type Route, route } from "../../route.ts";
import { emailAddress } from "../email.ts";
import { describeMailError, isInDoubt, type Mailer } from "../mail/smtp.ts";
import type { CodeBounds, CodeHashes } from "./codes.ts";
import {
  codeClient,
  forgetMail,
  noteMailed,
  type PlannedMail,
  planMail,
  signInCookie,
} from "./sign_in_mails.ts";
import { digitsMail, linkMail } from "./sign_in_texts.ts";

type SendCodeDeps = {
  db: Database;
  clock: Clock;
  mailer: Pick<Mailer, "send">;
  rates: ClientRates;
  bounds: CodeBounds;
  hashes: CodeHashes;
  signInUrl: string;
  log: Logger;
};

const body = z.object({ email: emailAddress });
const answer = z.object({
  status: z.literal("code_sent"),
  resent: z.boolean().describe("Whether an earlier code could still be used"),
});

/**
 * `POST /v1/auth/email/send-code`. The answer never depends on whether the address has an account.
 *
 * A code becomes valid when the mail server accepts its email. It also becomes valid if the server may have
 * accepted the email, although the caller receives an error. If sending fails, the earlier code remains
 * valid.
 *
 * Requests from other networks never prevent anyone from receiving a code. The sign-in cookie binds a code to
 * its browser. Above the address's limits, the email contains a long link code. While such a code is waiting,
 * no further email is sent, but the answer is the same.
 */
export function sendCodeRoute(deps: SendCodeDeps): Route {
  const { db, clock, rates, bounds, hashes } = deps;
  return route({
    id: "send_code",
    method: "POST",
    path: "/v1/auth/email/send-code",
    summary: "Send a sign-in code by mail",
    access: "public",
    body,
    answer: {
      status: 200,
      schema: answer,
      description: "The code is on its way",
      headers: { "Set-Cookie": "The sign-in cookie, which keeps this browser's codes apart from others'" },
    },
    errors: ["rate_limited"],
    async handle({ body: { email }, ip, cookie }) {
      await rates.takeSend(ip);
      const client = codeClient(cookie("sign_in"));
      const planned = await planMail(db, { email, client, hashes, bounds }, clock.now());
      const resent = planned !== undefined && (await sendPlanned(deps, email, planned));
      return { body: { status: "code_sent" as const, resent }, cookies: [signInCookie(client)] };
    },
  });
}

async function sendPlanned(
  { db, clock, mailer, signInUrl, log }: SendCodeDeps,
  email: string,
  { mailId, kind, code }: PlannedMail,
): Promise<boolean> {
  try {
    await mailer.send(kind === "digits" ? digitsMail(email, code) : linkMail(email, code, signInUrl));
  } catch (error) {
    log.warn(describeMailError(error), "a sign-in code could not be mailed");
    if (isInDoubt(error)) {
      await noteMailed(db, mailId, clock.now());
    } else {
      await forgetMail(db, mailId);
    }
    throw new ApiError("unavailable", "The mail could not be sent; try again later");
  }
  return (await noteMailed(db, mailId, clock.now())).resent;
}
