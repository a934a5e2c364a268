import { ADDRESS_TEXTS, DELETION_TEXTS } from "./account.ts";
import { ACTIVITY } from "./activity.ts";
import { ADOPTION, AGENT, AGENT_NOTICES, AGENTS, FIRST_STEPS } from "./agents.ts";
import { CALLBACKS, WEBHOOK_SECRET } from "./callbacks.ts";
import { CLUSTERS } from "./clusters.ts";
import { CONNECT, CUSTOMERS, PRODUCT_NOTICES, PRODUCTS, PROPOSALS, SIGNING_SECRET } from "./connect.ts";
import { EXPLAIN, REASONS, TRY_IT, whyDenied } from "./decisions.ts";
import { DELEGATION_NOTICES, DELEGATION_TEXTS } from "./delegations.ts";
import { DELIVERIES, RECOVERIES } from "./deliveries.ts";
import { ERRORS } from "./errors.ts";
import { HISTORY } from "./history.ts";
import { CHANNEL, CHANNEL_NOTICES, MAILS } from "./mails.ts";
import { ACTING, DOMAINS, INVITATION, ORGANIZATION, OWN_ACCOUNT } from "./organization.ts";
import { CONNECTIONS, PICKER, PLATFORM_NOTICES, PLATFORMS } from "./platforms.ts";
import { ASK, REQUEST, REQUESTS, SCOPES } from "./requests.ts";
import { SERVICE } from "./service.ts";

/** Texts about an account's credit. */
export const CREDIT = {
  navigation: "Credit",
  title: "Credit",
  levels: {
    low: "Credit runs low.",
    exhausted: "Credit is used up. No decision is made until there is more.",
  },
  bannerLink: "See what is left, and whom to ask",
  levelHints: {
    low: "When it is used up, no decision is made, and applications refuse the calls of agents.",
    exhausted: "Applications refuse the calls of agents.",
  },
  price: "A decision costs",
  priceOf: (usd: string) => `${usd} US dollars, whether it allows or denies`,
  more: "More credit",
  ask: "Ask for more credit at",
  askNobody: "Ask the people who run this service for more credit.",
  name: "Name this account",
  postings: "Postings",
  when: "When",
  what: "What",
  amount: "US dollars",
  noPostings: "Nothing was posted yet. The first decision is the first charge.",
  kinds: {
    alpha_credit: "Credit to begin with",
    grant: "Credit granted",
    verification: "A decision",
    terms: "Changed terms",
  },
  terms: { prepaid: "prepaid", postpaid: "postpaid" },
  invoiced: "Decisions are invoiced. They need no credit.",
  reference: "reference",
};

/** All texts of the console. */
export const texts = {
  language: "en",
  name: "Deputize",
  skip: "To the content",

  navigation: { label: "Main", menu: "Menu", home: "Home", requests: "Requests", waiting: "waiting" },
  acting: ACTING,
  ownAccount: OWN_ACCOUNT,
  channel: CHANNEL,
  address: ADDRESS_TEXTS,
  deletion: DELETION_TEXTS,
  mails: MAILS,
  organization: ORGANIZATION,
  invitation: INVITATION,
  domains: DOMAINS,
  activity: ACTIVITY,
  credit: CREDIT,
  connect: CONNECT,
  products: PRODUCTS,
  proposals: PROPOSALS,
  customers: CUSTOMERS,
  signingSecret: SIGNING_SECRET,
  listing: {
    pages: "Pages",
    first: "Back to the beginning",
    next: "Show more",
    filter: "Filter",
    all: "Show all",
    stale: "This part could not be updated, so what you see is old. The page tries again automatically.",
    copy: "Copy",
    copied: "Copied",
    download: "Download",
    wrong: "The filters cannot be used:",
    inUtc: "Show times in UTC",
    inOwnZone: "Show times in my time zone",
    inZone: (label: string, zone: string) => `${label} (${zone})`,
    noMoment: "Give a day and a time, such as 2026-03-01T14:30",
    once: "It is shown only this once. Keep it where you keep secrets: nobody can show it to you again.",
  },
  notices: {
    code_sent: "We sent you a code.",
    signed_out: "You are signed out.",
    renewed: "Your session goes on.",
    filter_saved: "Your filter is saved.",
    filter_deleted: "The saved filter is deleted.",
    session_ended: "Ended. That browser is signed out.",
    mails_chosen: "Your choice of mails is saved.",
    done_already: "That was already done, or no longer exists.",
    welcome: "Your account is ready.",
    asked: "Asked. The request waits for a decision.",
    approved: "Approved. The agent can use it from now on.",
    denied: "Denied.",
    ...CHANNEL_NOTICES,
    ...PLATFORM_NOTICES,
    callback_set: "The callback URL is saved.",
    callback_cleared: "The callback URL is removed.",
    callback_paused: "The callback is paused.",
    callback_resumed: "The callback is active again.",
    secret_promoted: "The next secret is in use.",
    resent: "The delivery is being sent.",
    recovery_begun: "Sending has begun. The list below shows the progress.",
    renamed: "The name was changed.",
    address_changed: "The address was changed. Your other sign-ins have ended.",
    rule_set: "The rule was changed.",
    invited: "The invitation was sent.",
    withdrawn: "The invitation was withdrawn.",
    role_changed: "The role was changed.",
    member_removed: "The member was removed.",
    left: "You left the organization.",
    joined: "You are a member now, and act for the organization here.",
    domain_added: "Added. Publish the record now.",
    domain_verified: "The domain is verified.",
    domain_removed: "The domain was removed.",
    ...DELEGATION_NOTICES,
    ...AGENT_NOTICES,
    ...PRODUCT_NOTICES,
  },
  shortcuts: {
    title: "Keyboard shortcuts",
    search: "Search on this page",
    help: "Show these shortcuts",
    on: "Use shortcuts in this browser",
    close: "Close",
  },
  appearance: {
    title: "Appearance",
    lead: "Choose how pages look in this browser. Automatic follows your device.",
    names: { auto: "Automatic", light: "Light", dark: "Dark" },
  },
  signIn: {
    title: "Sign in or sign up",
    lead: "Give your e-mail address. We send you a code; there is no password.",
    email: "E-mail address",
    emailHint: "The first time, this opens your account.",
    submit: "Send me a code",
    haveCode: "I have a code",
    notAnAddress: "Check the address: it should look like name@example.com",
  },
  code: {
    title: "Enter your code",
    lead: (email: string) => `We sent a code to ${email}. It can be used once, within 10 minutes.`,
    leadUnknown: "The code is in the mail that we sent you.",
    code: "Code",
    codeHint: "Six digits, or the long code of a sign-in link.",
    submit: "Sign in",
    again: "Send another code",
    notACode: "A code has six digits, or the 32 characters of a sign-in link",
  },
  renew: {
    title: "Continue your session",
    lead: "For your safety a session lasts 15 minutes. Continue where you were.",
    submit: "Continue",
    signIn: "Sign in as somebody else",
  },
  kept: {
    endedTitle: "Your session has ended",
    ended: "What you entered is kept. Continue, and send it again.",
    renew: "Continue",
    title: "Send it again?",
    explain:
      "Your session was renewed after you opened that page. What you entered is kept and was not sent yet.",
    again: "Send it now",
    discard: "Discard it",
    undone: "Nothing was done.",
    unknown: (once: boolean) =>
      once
        ? "It is not known whether this was done. If you send it again, it is still done only once."
        : "It is not known whether this was done. Check that before you send it again.",
    isKept: "What you entered is kept. Send it again in a moment.",
    running: "What you sent is still in progress, or was interrupted. Send it again in a minute",
    foreignTitle: "You are signed in as somebody else",
    foreign: (email: string) =>
      `You are now signed in as ${email}. You filled in the form as somebody else, so it was not sent.`,
    foreignHow:
      "To send the form, sign in as the person who filled it in. Use another tab, so that the form stays open. Then go back to the form and send it again.",
  },
  sessionEnd: {
    label: "Session",
    soon: "Your session ends in less than two minutes.",
    renew: "Stay signed in",
    renewed: "Your session goes on for 15 minutes.",
    over: "Your session has ended. What you have entered is kept when you send it.",
  },
  signOut: {
    button: "Sign out",
    title: "Sign out",
    lead: "Sign out of this browser, or everywhere you are signed in.",
    where: "Where",
    here: "Here only",
    everywhere: "Everywhere",
  },
  profile: {
    title: "Your name",
    lead: "Step 1 of 2. People see your name where you approve something.",
    first: "First name",
    last: "Last name",
    submit: "Continue",
  },
  account: {
    title: "Your account",
    lead: "Step 2 of 2. For whom will you approve what agents may do? This cannot be changed later.",
    type: "Account type",
    individual: "For myself",
    individualHint: "Your own agents and one platform.",
    organization: "For an organization",
    organizationHint: "An account that belongs to a company or a team.",
    organizationName: "Name of the organization",
    organizationNameHint: "Only for an organization.",
    chooseOne: "Choose for whom the account is",
    whichIsMeant:
      "You named an organization. Choose For an organization to open an account of that name, or empty the name to open one for yourself",
    submit: "Open the account",
  },
  firstSteps: FIRST_STEPS,
  home: {
    title: (name: string) => (name === "" ? "Home" : `Hello, ${name}`),
    waiting: (number: number, more: boolean) =>
      number === 0
        ? "Nothing waits for you"
        : `${number}${more ? " or more" : ""} ${number === 1 ? "request waits" : "requests wait"} for you`,
    nothingWaits: "Requests of your agents appear here. You approve, narrow or deny each of them.",
    asks: (agent: string, platform: string) => `${agent} of ${platform} asks`,
    since: "since",
    active: (number: number) =>
      number === 100 ? "100 active delegations or more" : `Active delegations: ${number}`,
    nothingActive: "No agent may do anything for you at the moment.",
    forever: "without an end",
    until: "until",
    allDelegations: "All delegations",
    denied: "Denied lately",
    allDenied: "All that was denied",
    nothingDenied: "Nothing was denied.",
    credit: "Credit",
    balance: (usd: string) => `${usd} US dollars`,
    decisionsLeft: (number: number) =>
      `Enough for ${number.toLocaleString("en")} ${number === 1 ? "decision" : "decisions"}.`,
    lasts(days: number) {
      if (days === Number.POSITIVE_INFINITY) return "Nothing was used in the last 7 days.";
      if (days < 1) return "At the rate of the last 7 days it lasts less than a day.";
      const whole = Math.floor(days);
      return `At the rate of the last 7 days it lasts ${whole > 999 ? "more than 999" : whole} ${whole === 1 ? "day" : "days"}.`;
    },
    creditLink: "Postings, and more credit",
    decisions: "Decisions of the last two weeks",
    notCounted: "There are too many decisions to count them now.",
  },
  request: REQUEST,
  requests: REQUESTS,
  ask: ASK,
  scopes: SCOPES,
  decisions: {
    chart: "Decisions by day and result; days in UTC",
    onDay: (day: string, of: { allow: number; deny: number; indeterminate: number }) =>
      `${day}: ${of.allow} allowed, ${of.deny} denied, ${of.indeterminate} not decided`,
    asTable: "As a table",
    day: "Day",
    allow: "Allowed",
    deny: "Denied",
    indeterminate: "Not decided",
    reasons: REASONS,
    why: whyDenied,
  },
  platforms: PLATFORMS,
  connections: CONNECTIONS,
  clusters: CLUSTERS,
  picker: PICKER,
  countdown: { left: (time: string) => `${time} left`, over: "It has ended." },
  explain: EXPLAIN,
  tryIt: TRY_IT,
  history: HISTORY,
  callbacks: CALLBACKS,
  webhookSecret: WEBHOOK_SECRET,
  deliveries: DELIVERIES,
  recoveries: RECOVERIES,
  service: SERVICE,
  ...DELEGATION_TEXTS,
  agents: AGENTS,
  agent: AGENT,
  adoption: ADOPTION,
  errors: ERRORS,
};

/** The type of {@link texts}. */
export type Texts = typeof texts;
