import { type Html, html } from "../../html/html.ts";
import type { Visit } from "../core/page.ts";
import { ACCOUNT, SIGN_IN } from "../core/places.ts";
import { choiceField } from "../elements/fields.ts";
import { form } from "../elements/form.ts";
import { day, time } from "../elements/values.ts";

/** The name of the form with which a person ends one of their sign-ins. */
export const SESSION_FORM = "end_session";

type OwnSession = Awaited<ReturnType<typeof loadSessions>>[number];

/** Returns where the signed-in person is signed in. */
export async function loadSessions({ call }: Visit) {
  return (await call("list_sessions")).sessions;
}

/** Returns the form that lists a person's sign-ins, and ends one of them. */
export function sessionForm(visit: Visit, sessions: readonly OwnSession[]): Html {
  const { ownAccount: words } = visit.texts;
  return html`<section class="card" id="sessions"><h2>${words.sessionsTitle}</h2><p class="quiet">${words.sessions}</p>
    ${form(visit, {
      name: SESSION_FORM,
      tone: "danger",
      content: choiceField(visit, {
        form: SESSION_FORM,
        name: "session_id",
        label: words.endWhich,
        hint: words.endHint,
        choices: sessions.map((session) => ({
          value: session.session_id,
          label: words.device(session.device, session.current),
          hint: html`${words.signedInAt} ${day(session.signed_in_at)}. ${words.usedAt} ${time(session.used_at)}.`,
        })),
      }),
      submit: words.endOne,
    })}
    <p><a href=${visit.own("/console/sign-out")}>${words.signOut}</a></p></section>`;
}

/**
 * Ends the sign-in that was chosen in a submitted form. If it was this browser's own sign-in, leads to the
 * sign-in page.
 */
export async function endSession({ call, own }: Visit, chosen: string, sessions: readonly OwnSession[]) {
  const session = sessions.find(({ session_id }) => session_id === chosen);
  if (session === undefined) return { to: own(ACCOUNT), notice: "done_already" as const };
  await call("end_session", { params: { session_id: chosen } });
  return session.current
    ? { to: own(SIGN_IN), notice: "signed_out" as const }
    : { to: own(ACCOUNT), notice: "session_ended" as const };
}
