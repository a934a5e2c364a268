import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { type Route, route } from "../../route.ts";
import { changeChoice, readChoices } from "./choices.ts";
import { type MailChoice, type MailKind, mailChoice, mailKinds } from "./kinds.ts";
import type { StopTokens } from "./stop_links.ts";

type Deps = { db: Database; clock: Clock; stopTokens: StopTokens };

const path = "/v1/service/mails";

const choices = z.object({
  request_waits: mailChoice.describe("A request waits for the person's decision"),
  request_lapses: mailChoice.describe("A request lapses within a day, or has lapsed"),
  request_decided: mailChoice.describe("A request or proposal of the person was decided or lapsed"),
  authority_lent: mailChoice.describe("The person approved a request"),
  product_proposed: mailChoice.describe("A member proposed a product"),
} satisfies Record<MailKind, typeof mailChoice>);

/** How often a person gets each kind of mail, as the API returns it. */
export type MailChoicesAnswer = z.infer<typeof choices>;

const stopped = z.object({ stopped: z.enum(mailKinds) });
/** The answer after one kind of mail was stopped. */
export type StoppedAnswer = z.infer<typeof stopped>;

/** Returns the operations with which people choose the mails that they get. */
export function mailRoutes(deps: Deps): Route[] {
  return [choicesRoute(deps), changeRoute(deps), stopRoute(deps)];
}

function choicesRoute({ db }: Deps): Route {
  return route({
    id: "get_mail_choices",
    method: "GET",
    path,
    summary: "See which mails the signed-in person gets",
    access: "session",
    roles: "person",
    answer: { status: 200, schema: choices, description: "How often the person gets each kind of mail" },
    errors: [],
    handle: async ({ caller }) => ({ body: await shownChoices(db, caller.person.accountId) }),
  });
}

async function shownChoices(db: Database, accountId: string): Promise<Record<MailKind, MailChoice>> {
  const chosen = await readChoices(db, accountId);
  const { request_waits = "every", request_lapses = "every" } = chosen;
  const { request_decided = "every", authority_lent = "every", product_proposed = "every" } = chosen;
  return { request_waits, request_lapses, request_decided, authority_lent, product_proposed };
}

function changeRoute({ db, clock }: Deps): Route {
  return route({
    id: "change_mail_choices",
    method: "PATCH",
    path,
    summary: "Choose which mails the signed-in person gets",
    access: "session",
    roles: "person",
    idempotent: true,
    body: choices.partial(),
    answer: { status: 200, schema: choices, description: "How often the person gets each kind of mail" },
    errors: [],
    async handle({ caller, body }) {
      const { accountId } = caller.person;
      await db.transaction(async (tx) => {
        // The sender locks several rows of a person in this order too.
        for (const kind of mailKinds.toSorted()) {
          const choice = body[kind];
          if (choice !== undefined) await changeChoice(tx, { accountId, kind, choice, now: clock.now() });
        }
      });
      return { body: await shownChoices(db, accountId) };
    },
  });
}

const query = z.object({ token: z.string().max(200).optional().describe("The token in the mail's link") });

/**
 * `POST …/mails/stop`: stops one kind of mail to one person, whom the token names. Mail programs call it when
 * a person clicks *unsubscribe* (RFC 8058). The body has no meaning.
 */
function stopRoute({ db, clock, stopTokens }: Deps): Route {
  return route({
    id: "stop_mails",
    method: "POST",
    path: `${path}/stop`,
    summary: "Stop one kind of mail, with the link of such a mail",
    access: "public",
    query,
    answer: {
      status: 200,
      schema: stopped,
      description: "The person gets no further mails of this kind",
    },
    errors: ["not_found"],
    async handle({ query: { token } }) {
      const found = stopTokens.read(token ?? "");
      if (found === undefined) throw new ApiError("not_found", "token: not the token of a mail");
      const { accountId, kind } = found;
      await db.transaction((tx) => changeChoice(tx, { accountId, kind, choice: "off", now: clock.now() }));
      return { body: { stopped: kind } };
    },
  });
}
