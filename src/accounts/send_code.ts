import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/connection.ts";
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { type Route, route } from "../route.ts";
import { CODE_SECONDS, type CodeHashes, newCode, replaceCode } from "./codes.ts";
import { emailAddress } from "./email.ts";
import type { Mail, Mailer } from "./mailer.ts";
import type { SendLimits } from "./send_limits.ts";

type SendCodeDeps = {
  db: Database;
  clock: Clock;
  mailer: Pick<Mailer, "send">;
  limits: SendLimits;
  hashes: CodeHashes;
  log: Logger;
};

const body = z.object({ email: emailAddress });
const answer = z.object({
  status: z.literal("code_sent"),
  resent: z.boolean().describe("Whether a code that could still be used was replaced"),
});

/**
 * `POST /v1/auth/email/send-code`. Nothing in it depends on whether the address has an account. The code is stored
 * after its mail was taken over: a mail that fails leaves the earlier code as it was, and nothing else.
 */
export function sendCodeRoute(deps: SendCodeDeps): Route {
  return route({
    id: "send_code",
    method: "POST",
    path: "/v1/auth/email/send-code",
    summary: "Send a sign-in code by mail",
    access: "public",
    body,
    answer: { status: 200, schema: answer, description: "The code is on its way" },
    errors: ["rate_limited"],
    async handle({ body: { email }, ip }) {
      const addressHash = deps.hashes.address(email);
      await deps.limits.take({ ip, addressHash });
      const code = newCode();
      await sendOrGiveBack(deps, codeMail(email, code), addressHash);
      const codeHash = deps.hashes.code(email, code);
      const { resent } = await replaceCode(deps.db, { addressHash, codeHash }, deps.clock.now());
      return { body: { status: "code_sent" as const, resent } };
    },
  });
}

async function sendOrGiveBack(
  { mailer, limits, log }: SendCodeDeps,
  mail: Mail,
  addressHash: Buffer,
): Promise<void> {
  try {
    await mailer.send(mail);
  } catch (error) {
    const { code, responseCode } = error as { code?: unknown; responseCode?: unknown };
    log.warn({ smtp_code: code, smtp_response_code: responseCode }, "a sign-in code could not be mailed");
    await limits.giveBack({ addressHash });
    throw new ApiError("unavailable", "The mail could not be sent; try again later");
  }
}

function codeMail(email: string, code: string): Mail {
  return {
    to: email,
    subject: "Your sign-in code",
    text: [
      `Your sign-in code is ${code}`,
      "",
      `It can be used once, within ${CODE_SECONDS / 60} minutes. Nobody who works for us will ask you for it.`,
      "If you did not try to sign in, you need not do anything.",
      "",
    ].join("\n"),
  };
}
