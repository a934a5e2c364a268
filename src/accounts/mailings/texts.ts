import { addSeconds } from "../../clock.ts";
import type { RequestMailKind } from "../../db/tables.ts";
import { byRisk } from "../../protocol/documents/scope_risk.ts";
import { SCOPE_WORDS } from "../../protocol/documents/scope_words.ts";
import type { Subject } from "./subjects.ts";
import { dayOf, endOn, lengthOf, SOON_SECONDS } from "./times.ts";

/** The content of a mail: a sentence, one button, and why the person gets it. */
export type MailContent = {
  subject: string;
  heading: string;
  paragraphs: string[];
  /** Why the agent needs it, in the words of whoever asks. */
  purpose?: string;
  /** The list in the mail, such as permissions of one request, or several requests. */
  items: (string | ExactItem)[];
  button: { label: string; path: string };
  after: string;
  reason: string;
};

/** A name of one line that strangers chose and people copy. A mail shows exactly its characters. */
export type ExactItem = { label: string; exact: string };

/** Items that a mail lists. It gives the number of all others. */
export const LISTED = 10;

/** Requests of one account. */
type Subjects = readonly [Subject, ...Subject[]];

/**
 * Returns the content of a mail about `total` requests of one account, of which `subjects` are the first.
 * `now` is when it is sent.
 */
export function mailContent(
  kind: RequestMailKind,
  subjects: Subjects,
  { now, total }: { now: Date; total: number },
): MailContent {
  return total === 1 ? ONE[kind](subjects[0], now) : MANY[kind](subjects, total, now);
}

const ONE: Record<RequestMailKind, (subject: Subject, now: Date) => MailContent> = {
  request_waits: (subject, now) => waiting(subject, now),
  request_lapses(subject, now) {
    if (subject.status === "lapsed") return lapsed(subject);
    const content = waiting(subject, now);
    const end = endOn(subject.expires_at, now);
    return {
      ...content,
      subject: `Still undecided: ${content.subject}`,
      heading: `Nobody has decided: ${content.heading}`,
      after: `Nothing happens until somebody approves. Without a decision, the request lapses ${end}.`,
    };
  },
  request_decided(subject, now) {
    if (subject.status === "lapsed") {
      const title = `Your request for ${quoted(subject.agent_name)} lapsed`;
      return {
        ...lapsed(subject),
        subject: title,
        heading: title,
        reason: "You get this mail because you asked.",
      };
    }
    const agent = quoted(subject.agent_name);
    const verb = subject.status === "approved" ? "approved" : "denied";
    const who = subject.decided_by === null ? "Somebody" : quoted(subject.decided_by);
    return {
      subject: `Your request for ${agent} was ${verb}`,
      heading: `Your request for ${agent} was ${verb}`,
      paragraphs: [
        subject.status === "approved"
          ? `${who} approved ${countOf(subject)} that you asked for. The agent may now:`
          : `${who} denied what you asked for. The agent did not get anything.`,
      ],
      items: wordsOf(subject.approved_scope ?? [], subject),
      button: { label: "Look at the decision", path: requestPath(subject) },
      after: endText(subject, now),
      reason: "You get this mail because you asked.",
    };
  },
  authority_lent(subject, now) {
    const agent = quoted(subject.agent_name);
    return {
      subject: `${agent} may now act for ${nameOf(subject)}`,
      heading: `You let ${agent} act for ${nameOf(subject)}`,
      paragraphs: [
        `You approved ${countOf(subject)} of the platform ${quoted(subject.platform_name)}. The agent may now:`,
      ],
      items: wordsOf(subject.approved_scope ?? [], subject),
      button: {
        label: "Look at it, or end it",
        path: accountPath(subject, `/delegations/${subject.cert_id}`),
      },
      after: endText(subject, now),
      reason: "You get this mail because you approved. If that was not you, end it now.",
    };
  },
};

const MANY: Record<RequestMailKind, (subjects: Subjects, total: number, now: Date) => MailContent> = {
  request_waits: (subjects, total) =>
    several(subjects, total, `${total} requests to act for ${nameOf(subjects[0])} wait for a decision`),
  request_lapses: (subjects, total, now) => ({
    ...several(
      subjects,
      total,
      `${total} requests to act for ${nameOf(subjects[0])} ${whenLapsed(subjects)}`,
      (each) => lapseOf(each, now),
    ),
    ...(subjects.every(({ status }) => status === "lapsed") && { after: "" }),
  }),
  request_decided: (subjects, total) => ({
    ...several(
      subjects,
      total,
      `${total} of your requests to act for ${nameOf(subjects[0])} ${subjects.some(({ status }) => status === "lapsed") ? "were decided or lapsed" : "were decided"}`,
      ({ status }) => status,
    ),
    after: "",
    reason: "You get this mail because you asked.",
  }),
  authority_lent: (subjects, total) => ({
    ...several(subjects, total, `You approved ${total} requests to act for ${nameOf(subjects[0])}`, countOf),
    button: { label: "Look at them, or end them", path: accountPath(subjects[0], "/delegations") },
    after: "You can end each of them at any time.",
    reason: "You get this mail because you approved. If that was not you, end them now.",
  }),
};

function waiting(subject: Subject, now: Date): MailContent {
  const { publisher_name: publisher, publisher_domain: domain, requested_scope: scopes } = subject;
  const agent = quoted(subject.agent_name);
  const end = endOf(subject, now);
  const runner =
    publisher === null
      ? "Nobody has proved who runs this platform."
      : domain === null
        ? `An account that calls itself ${quoted(publisher)} runs this platform. It has proved no domain.`
        : `${quoted(publisher)} runs this platform and has proved that it owns ${unlinked(domain)}.`;
  const person = subject.asked_by === null ? "" : ` ${quoted(subject.asked_by)} asked for it.`;
  const asker = `The agent ${agent} of the platform ${quoted(subject.platform_name)} asks to act for ${nameOf(subject)}.${person} ${runner} The agent could:`;
  return {
    subject: `${agent} asks to act for ${nameOf(subject)} (${permissions(scopes.length)}, ${end.short})`,
    heading: `${agent} asks to act for ${nameOf(subject)}`,
    paragraphs: [asker],
    ...(subject.purpose !== null && {
      purpose: `Why, in the words of whoever asked: ${quoted(subject.purpose)}`,
    }),
    items: wordsOf(scopes, subject),
    button: { label: "Look at the request", path: requestPath(subject) },
    after: `${end.sentence} Nothing happens until somebody approves. The request lapses ${endOn(subject.expires_at, now)}.`,
    reason: `You get this mail because you may decide for ${accountOf(subject)}.`,
  };
}

/** Tells the person who asked, and those who could have decided, that nobody decided. */
function lapsed(subject: Subject): MailContent {
  const title = `The request of ${quoted(subject.agent_name)} to act for ${nameOf(subject)} lapsed`;
  return {
    subject: title,
    heading: title,
    paragraphs: [
      `Nobody decided by ${dayOf(subject.expires_at)}. The agent did not get anything. Somebody can ask again.`,
    ],
    items: [],
    button: { label: "Look at the request", path: requestPath(subject) },
    after: "",
    reason: `You get this mail because you may decide for ${accountOf(subject)}.`,
  };
}

function whenLapsed(subjects: Subjects): string {
  if (subjects.every(({ status }) => status === "pending")) return "lapse soon";
  return subjects.some(({ status }) => status === "pending") ? "lapse soon or have lapsed" : "have lapsed";
}

function lapseOf({ status, expires_at }: Subject, now: Date): string {
  return status === "lapsed" ? "lapsed" : `lapses ${endOn(expires_at, now)}`;
}

function several(
  subjects: Subjects,
  total: number,
  title: string,
  detail = ({ requested_scope }: Subject) => permissions(requested_scope.length),
): MailContent {
  const listed = subjects.slice(0, LISTED);
  const more = total - listed.length;
  return {
    subject: title,
    heading: title,
    paragraphs: [],
    items: [
      ...listed.map((each) => `${quoted(each.agent_name)} of ${quoted(each.platform_name)}: ${detail(each)}`),
      ...(more > 0 ? [`and ${more} more`] : []),
    ],
    button: { label: "Look at the requests", path: accountPath(subjects[0], "/requests") },
    after: "Nothing happens until somebody approves.",
    reason: "You get this mail because you may decide these requests.",
  };
}

function permissions(count: number): string {
  return count === 1 ? "1 permission" : `${count} permissions`;
}

function countOf({ approved_scope, requested_scope }: Subject): string {
  const count = approved_scope?.length ?? 0;
  return count === requested_scope.length
    ? permissions(count)
    : `${count} of ${permissions(requested_scope.length)}`;
}

/** Returns scopes in words. A custom scope has its platform's label, in quotes. Sensitive ones come first. */
export function wordsOf(
  scopes: readonly string[],
  { scope_descriptions: said }: Pick<Subject, "scope_descriptions">,
): string[] {
  const describedAs = (scope: string) => (Object.hasOwn(said, scope) ? said[scope] : undefined);
  const inOrder = byRisk(scopes, (scope) => describedAs(scope)?.sensitive === true);
  const words = inOrder.map(
    (scope) =>
      SCOPE_WORDS[scope] ?? `Do what its platform calls ${quoted(describedAs(scope)?.label ?? scope)}`,
  );
  const more = words.length - LISTED;
  return more > 0 ? [...words.slice(0, LISTED), `and ${more} more`] : words;
}

/** Returns when the authority would end, for the subject and as a sentence. */
function endOf(
  { requested_expires_at: at, requested_expires_in: seconds }: Subject,
  now: Date,
): { short: string; sentence: string } {
  if (seconds !== null && seconds < SOON_SECONDS) {
    const length = lengthOf(seconds);
    return { short: `for ${length}`, sentence: `It would end ${length} after the approval.` };
  }
  const end = at ?? (seconds === null ? null : addSeconds(now, seconds));
  if (end === null) {
    return {
      short: "until you end it",
      sentence: "It asks for no end: you choose the end when you approve.",
    };
  }
  return { short: `until ${dayOf(end)}`, sentence: `It would end ${endOn(end, now)}.` };
}

function endText({ status, ends_at }: Subject, now: Date): string {
  if (status !== "approved") return "";
  const end = ends_at === null ? "It has no end date." : `It ends ${endOn(ends_at, now)}.`;
  return `${end} You can end it at any time.`;
}

function nameOf({ organization_name }: Subject): string {
  return organization_name === null ? "you" : quoted(organization_name);
}

function accountOf({ organization_name }: Subject): string {
  return organization_name === null ? "your own account" : `the organization ${quoted(organization_name)}`;
}

function requestPath(subject: Subject): string {
  return accountPath(subject, `/requests/${subject.request_id}`);
}

function accountPath({ account_id, organization_name }: Subject, path: string): string {
  return organization_name === null ? `/console${path}` : `/console/for/${account_id}${path}`;
}

/**
 * Returns text of strangers in quotation marks. It can neither end the quotation, nor change the direction of
 * the text after it, nor become a link in a mail program, which would turn the name `example.com` into one.
 */
export function quoted(text: string): string {
  const plain = unlinked(text.replaceAll(/[\p{Quotation_Mark}″ʺ❝❞]/gu, "'"));
  return RIGHT_TO_LEFT.test(plain) ? `“\u2068${plain}\u2069”` : `“${plain}”`;
}

/** Letters of scripts that are written from right to left. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Puts an invisible character after each character at which mail programs recognize a URL or an address. */
export function unlinked(text: string): string {
  return text.replaceAll(/[.:/@。．｡]/g, "$&\u2060");
}
